// Package service is what the main of every Magos service has in common: flags, logs, the manager with leader election and
// caches, certificates, the gRPC server, connections to peers, probes, and an orderly end.
package service
