// Package inputs composes the variables of a Workspace from VariableSets. It is pure and never sees the value of a
// reference: a Secret or ConfigMap is known here by the names of its keys and its resourceVersion alone.
package inputs
