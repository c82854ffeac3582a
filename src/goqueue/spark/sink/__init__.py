"""Writing topics from Spark."""

from goqueue.spark.worker_imports import import_kio_alone

import_kio_alone()
