//go:build !linux

package cluster

import "context"

// startNode is never reached: the preflight check refuses other systems first.
func startNode(context.Context, Config, network, string) error { return errNotLinux }
