"""Dead letters as Spark rows, and their way back."""
