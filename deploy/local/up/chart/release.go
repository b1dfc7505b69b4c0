// Package chart says how deploy/chart is installed on a cluster of this machine.
package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"magosproject.io/deploy/local/up/helm"
)

// Name and Namespace of the release on a cluster of this machine.
const (
	Name      = "magos"
	Namespace = "magos-system"
)

// Folder is where the chart lies below the root of the repository.
func Folder(root string) string { return filepath.Join(root, "deploy", "chart") }

// Release returns the installation of the chart with the values. Its description names the content of both, so that
// an installation of the same is recognised.
func Release(root string, values map[string]any) (helm.Release, error) {
	release := helm.Release{Name: Name, Namespace: Namespace, Chart: Folder(root), Values: values}
	digest := sha256.New()
	err := filepath.WalkDir(release.Chart, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(release.Chart, path)
		_, _ = fmt.Fprintf(digest, "%s %d\n", relative, len(content))
		digest.Write(content)
		return err
	})
	if err != nil {
		return helm.Release{}, fmt.Errorf("reading the chart: %w", err)
	}
	// Maps are written in the order of their keys.
	written, err := json.Marshal(values)
	if err != nil {
		return helm.Release{}, fmt.Errorf("writing the values: %w", err)
	}
	digest.Write(written)
	release.Description = "content " + hex.EncodeToString(digest.Sum(nil))[:16]
	return release, nil
}
