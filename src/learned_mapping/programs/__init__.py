"""What gets mapped: computation graphs and scheduled programs, their files, the public models they come from."""
