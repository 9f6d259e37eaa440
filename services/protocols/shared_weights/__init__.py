"""What a plan of protocol=shared finds: linear learners on shared weights, or a first layer on shares."""
