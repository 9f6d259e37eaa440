"""What an audit will do, decided and told before it does anything: attacks, cipher, time."""
