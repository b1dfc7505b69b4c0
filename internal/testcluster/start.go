package testcluster

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/crds"
)

// assetsVariable names the folder with etcd and kube-apiserver.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Start runs an API server until the test ends and returns an administrator's configuration for it.
// It takes some seconds: prefer one per package, with Main.
//
// With -short, the fast loop, the test is skipped.
func Start(tb testing.TB) *rest.Config {
	tb.Helper()
	if testing.Short() {
		tb.Skip("this test starts an API server, which -short leaves out")
	}
	config, stop, err := start()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("stopping the test cluster: %v", err)
		}
	})
	return config
}

// Main is a TestMain that runs one API server for all tests of a package, and hands its configuration to use before they start.
// With -short, the fast loop, the package's tests are left out.
func Main(m *testing.M, use func(*rest.Config)) {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "these tests need an API server, which -short leaves out")
		os.Exit(0)
	}
	config, stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	use(config)
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the test cluster:", err)
		code = 1
	}
	os.Exit(code)
}

func start() (*rest.Config, func() error, error) {
	if err := checkAssets(os.Getenv(assetsVariable)); err != nil {
		return nil, nil, err
	}
	definitions, err := definitions()
	if err != nil {
		return nil, nil, err
	}
	// Tests that want the log of controllers give the manager a logger of their own.
	ctrllog.SetLogger(logr.Discard())
	environment := &envtest.Environment{CRDInstallOptions: envtest.CRDInstallOptions{CRDs: definitions}}
	config, err := environment.Start()
	if err != nil {
		// A control plane that came up half would outlive the test.
		return nil, nil, fmt.Errorf("starting the test cluster: %w", errors.Join(err, environment.Stop()))
	}
	config.QPS, config.Burst = 500, 1000
	return config, environment.Stop, nil
}

// checkAssets says what to run where the binaries are missing.
func checkAssets(folder string) error {
	const advice = "these tests need a real etcd and kube-apiserver: run them with `make test`, which builds both, or set " + assetsVariable + " to a folder that has them"
	if folder == "" {
		return fmt.Errorf("%s is not set; %s", assetsVariable, advice)
	}
	for _, binary := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, binary)); err != nil {
			return fmt.Errorf("looking for %s: %w; %s", binary, err, advice)
		}
	}
	return nil
}

// definitions reads the CRDs that ship with package api.
func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var all []*apiextensionsv1.CustomResourceDefinition
	err := fs.WalkDir(crds.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := crds.Files.ReadFile(path)
		if err != nil {
			return err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, definition)
		return nil
	})
	return all, err
}
