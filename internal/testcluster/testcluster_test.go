package testcluster

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	magosv1alpha1 "magosproject.io/api/v1alpha1"
)

func TestClusterKnowsTheKindsAndJudgesThem(t *testing.T) {
	c := Client(t, Start(t))
	namespace := Namespace(t, c)
	for _, list := range []client.ObjectList{
		&magosv1alpha1.ProjectList{}, &magosv1alpha1.WorkspaceList{}, &magosv1alpha1.VariableSetList{}, &magosv1alpha1.RolloutList{},
	} {
		if err := c.List(t.Context(), list); err != nil {
			t.Errorf("listing %T: %v", list, err)
		}
	}
	empty := &magosv1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "empty"}}
	if err := c.Create(t.Context(), empty); !apierrors.IsInvalid(err) {
		t.Errorf("creating an empty Workspace: %v, want it refused as invalid", err)
	}
	if token := Token(t, c, namespace, "somebody", "magos-runner"); strings.Count(token, ".") != 2 {
		t.Error("the token is no JWT")
	}
}

// Five hundred of them, held at once: none twice, and each can be listened at.
func TestAddressesAreTheTestsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		address := Address(t)
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
	}
	for address := range seen {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if _, err := reserve(listener.Addr().(*net.TCPAddr).Port); err == nil {
		t.Error("a port was reserved that somebody listens at")
	}
}

func TestMissingAssetsSayWhatToRun(t *testing.T) {
	half := t.TempDir()
	if err := os.WriteFile(filepath.Join(half, "etcd"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"not set": "", "no such folder": "/nonexistent", "only etcd": half} {
		err := checkAssets(folder)
		if err == nil || !strings.Contains(err.Error(), "make test") {
			t.Errorf("%s: error = %v, want one that names the command to run", name, err)
		}
	}
}
