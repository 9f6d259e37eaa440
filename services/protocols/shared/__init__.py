"""What training on shared weights needs: who decrypts keeps what it reads, as a share."""
