// Package rpcerr is the one vocabulary of errors that Magos services return over gRPC: a canonical code, and a reason that
// callers branch on. It survives the wire: the server's interceptor turns an Error into a status with google.rpc details, the client's turns it back.
package rpcerr
