package testcluster

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/crds"
)

const (
	// assetsVariable names the folder with etcd and kube-apiserver.
	assetsVariable = "KUBEBUILDER_ASSETS"
	// patience is for one step of the start or the stop. Machines that run tests are busy: the library's own limits of 5 to 20 s
	// fail there, and nothing is learned from that.
	patience = 3 * time.Minute
	// attempts: the library picks free ports a moment before it uses them, and waits 5 s for the first namespace.
	attempts = 3
)

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
	var faults error
	for range attempts {
		environment := newEnvironment(definitions)
		config, err := environment.Start()
		if err == nil {
			config.QPS, config.Burst = 500, 1000
			return config, environment.Stop, nil
		}
		// A control plane that came up half would outlive the test.
		faults = errors.Join(faults, err, environment.Stop())
	}
	return nil, nil, fmt.Errorf("starting the test cluster, %d times: %w", attempts, faults)
}

func newEnvironment(definitions []*apiextensionsv1.CustomResourceDefinition) *envtest.Environment {
	all := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(definitions))
	for _, definition := range definitions {
		all = append(all, definition.DeepCopy())
	}
	return &envtest.Environment{
		CRDInstallOptions:        envtest.CRDInstallOptions{CRDs: all, MaxTime: patience},
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
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
