"""The controller: from what the metadata says to the changes that it needs. Pure.

It holds no state of its own. Everything that it decides follows from one view of the metadata, so
that a new controller goes on where the last one ended, and two controllers at once do no harm:
each change compares the version of the partition and who the controller is.
"""
