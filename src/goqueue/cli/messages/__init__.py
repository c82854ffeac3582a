"""Commands that send, read and follow messages: by offset, as a queue, delayed, dead, traced."""
