"""huey's own tests of its FileStorage, each on a copy of the queue given first, in the directory given second."""

import shutil
import sys
import unittest

from huey.tests.test_storage import TestFileStorageMethods

operated, here = sys.argv[1:3]


class OnAnOperatedQueue(TestFileStorageMethods):
    path = here
    result_path = f"{here}/results"
    queue_path = f"{here}/queue"

    def setUp(self):
        shutil.copytree(operated, here)
        super().setUp()


suite = unittest.defaultTestLoader.loadTestsFromTestCase(OnAnOperatedQueue)
result = unittest.TextTestRunner().run(suite)
sys.exit(not result.wasSuccessful() or not result.testsRun)
