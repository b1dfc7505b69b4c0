// Package peertest has stand-ins for the peers of the workspace service. They keep the contracts of their .proto files and
// are reached over a real gRPC connection, so that error reasons cross the wire as they do in production.
package peertest
