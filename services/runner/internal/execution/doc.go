// Package execution holds what the runner decides, as pure functions: whether a request is sound, which objects make
// up one phase of a run, and what the Job, its Pods and their events prove about it. It knows no client and no clock.
package execution
