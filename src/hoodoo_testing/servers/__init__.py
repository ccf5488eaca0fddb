"""Real servers for tests: they listen on loopback and die with the process that started them.

    `object_stores`  SeaweedFS as S3, and rclone as an S3 that ignores conditions
    `faulty_proxy`   an HTTP proxy that loses or delays requests by a script
    `zookeeper`      a ZooKeeper server, from the jars of the pyspark wheel
    `spark_cluster`  a standalone Spark master with two workers
    `jvm`            finds Java, and makes JVMs start quickly

In: a temporary directory. Out: addresses and storage options; `ServerUnavailable` if a server is
not installed or does not start.
Not here: simulated stores and networks (hoodoo_testing/simulator/world).
"""
