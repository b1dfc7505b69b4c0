// Package controller brings Workspaces and VariableSets in line. A pass observes, lets the pure core decide, acts once
// and records once. What the core decides is in package lifecycle; nothing here chooses between two ways.
//
// Changes of Secrets and ConfigMaps are seen by watching their metadata alone. The names of their keys are read, one
// object at a time and only when its resourceVersion is new; values are dropped before anything is kept.
package controller
