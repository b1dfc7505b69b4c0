// Package v1alpha1 holds the resources of Magos: Project, Workspace, VariableSet and Rollout.
//
// It also holds the vocabulary that the services share and that users see: every phase, condition
// type and reason (conditions.go), every annotation and label (annotations.go), and the rules by
// which a grant is written and read (grant.go). Nothing here talks to a cluster.
//
// +kubebuilder:object:generate=true
// +groupName=magosproject.io
package v1alpha1
