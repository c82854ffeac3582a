"""The process of a worker; its argument is the descriptor of the socket to the metadata store."""

import sys

from goqueue.server.needless_imports import skip_needless_imports

if __name__ == "__main__":
    skip_needless_imports()

    from goqueue.server.workers.worker import main

    sys.exit(main(int(sys.argv[1])))
