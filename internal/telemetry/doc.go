// Package telemetry is what a service tells about itself: structured logs, metrics, and whether it is alive and ready.
package telemetry
