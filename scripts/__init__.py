"""What developers and continuous integration run beside the tests."""
