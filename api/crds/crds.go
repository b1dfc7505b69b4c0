// Package crds carries the CustomResourceDefinitions of Magos, as controller-gen makes them from package v1alpha1.
package crds

import "embed"

// Files holds one YAML file per kind.
//
//go:embed *.yaml
var Files embed.FS
