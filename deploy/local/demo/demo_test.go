package demo

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

// TestTheManifestsSayWhatTheConstantsSay: both are written down, and people read the manifests.
func TestTheManifestsSayWhatTheConstantsSay(t *testing.T) {
	manifests, err := ProjectManifests()
	if err != nil {
		t.Fatal(err)
	}
	var workspaces []string
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.GetNamespace() != Namespace {
			t.Errorf("%s %s is in namespace %s", object.GetKind(), object.GetName(), object.GetNamespace())
		}
		if object.GetKind() != "Workspace" {
			continue
		}
		var w magosv1alpha1.Workspace
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &w, true); err != nil {
			t.Fatal(err)
		}
		workspaces = append(workspaces, strings.TrimPrefix(w.Name, Project+"-"))
		if w.Spec.Source.RepoURL != RepositoryURL || w.Spec.Terraform.Version != OpenTofuVersion || w.Spec.ProjectRef.Name != Project {
			t.Errorf("workspace %s differs from the constants: %+v", w.Name, w.Spec)
		}
		if _, err := fs.Stat(Repository, "repository/"+w.Spec.Source.Path+"/main.tf"); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(workspaces, Steps) {
		t.Errorf("the Workspaces are %v, the steps %v", workspaces, Steps)
	}
	module, err := Repository.ReadFile("repository/modules/greeting/main.tf")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(module), `version = "`+TimeProviderVersion+`"`) {
		t.Errorf("the module does not ask for version %s of the time provider", TimeProviderVersion)
	}
	if _, err := fs.Stat(Repository, "repository/"+MessageFile); err != nil {
		t.Error(err)
	}
}

func TestTheServerRunsFromTheGivenImage(t *testing.T) {
	manifests, err := ServerManifests("registry.test/git:1")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(manifests, []byte("image: registry.test/git:1\n")) || bytes.Contains(manifests, []byte("IMAGE")) {
		t.Errorf("the image is not in place:\n%s", manifests)
	}
}
