"""Where files lie: one small protocol, and the stores that keep it.

``store`` is the contract. ``local``, ``memory`` and ``remote`` keep it for a file system, for the memory of
this process, and for S3, Google Cloud Storage, Azure and HTTP. ``open`` makes a store from a location and
options; ``router`` puts several behind one face.
"""
