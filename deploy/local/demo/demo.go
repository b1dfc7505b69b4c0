// Package demo holds what `make up` puts into a cluster to show Magos at work: a Git server with a repository, and a
// Project whose Rollout takes it from dev to staging to prod.
package demo

import (
	"bytes"
	"embed"
	"fmt"
)

// Names of the demo in the cluster.
const (
	// Namespace holds all of it.
	Namespace = "magos-demo"
	// Project is the name of the Project and of its Rollout.
	Project = "demo"
	// Server is the name of the Git server's Deployment and Service.
	Server = "git"
	// RepositoryURL is where the cluster finds the repository.
	RepositoryURL = "http://" + Server + "." + Namespace + ".svc/demo.git"
	// ToolMirrorURL and ProviderMirrorURL are where run pods find OpenTofu and the time provider.
	ToolMirrorURL     = "http://" + Server + "." + Namespace + ".svc/tools"
	ProviderMirrorURL = "http://" + Server + "." + Namespace + ".svc/providers"
	// OpenTofuVersion and TimeProviderVersion are those of the mirror.
	OpenTofuVersion     = "1.12.6"
	TimeProviderVersion = "0.14.2"
	// MessageFile is the file of the repository that a push changes.
	MessageFile = "modules/greeting/message.txt"
)

// Steps are the names of the Rollout's steps, in order; each has the one Workspace <Project>-<step>.
var Steps = []string{"dev", "staging", "prod"}

// Repository is the first commit of the demo repository, in the folder repository.
//
//go:embed all:repository
var Repository embed.FS

// Manifests are the objects of the demo: server.yaml is the Git server, a template; project.yaml is what a user of Magos writes.
//
//go:embed manifests
var Manifests embed.FS

// ServerManifests are the objects of the Git server, which runs from the image.
func ServerManifests(image string) ([]byte, error) {
	content, err := Manifests.ReadFile("manifests/server.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the Git server's manifests: %w", err)
	}
	return bytes.ReplaceAll(content, []byte("image: IMAGE"), []byte("image: "+image)), nil
}

// ProjectManifests are what a user of Magos writes.
func ProjectManifests() ([]byte, error) {
	content, err := Manifests.ReadFile("manifests/project.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the demo's manifests: %w", err)
	}
	return content, nil
}
