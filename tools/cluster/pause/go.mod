// The first process of every pod sandbox of the local and test clusters.
module magosproject.io/tools/cluster/pause

go 1.26
