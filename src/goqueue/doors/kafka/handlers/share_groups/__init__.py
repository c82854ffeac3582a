"""Share groups (KIP-932): records acquired and acknowledged one by one."""
