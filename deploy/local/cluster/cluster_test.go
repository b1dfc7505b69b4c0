package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"magosproject.io/deploy/local/cluster/image"
	"magosproject.io/deploy/local/cluster/parts"
)

const (
	probeImage = "magos.local/probe:test"
	namespace  = "story"
	nobody     = int64(65532)
)

// TestOneNodeCluster tells the life of a cluster in order, on a real one: each part builds on those before.
func TestOneNodeCluster(t *testing.T) {
	config := testConfig(t)
	ctx := t.Context()
	takePorts(t)
	cluster, err := Up(ctx, config, testProgress{t})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := Leftovers(ctx, config); len(left) == 0 {
		t.Fatal("Leftovers sees nothing of a running cluster, so its silence after Down would prove nothing")
	}
	if err := cluster.LoadImage(ctx, buildProbe(t)); err != nil {
		t.Fatal(err)
	}
	client, err := cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	create(t, client.CoreV1().Namespaces().Create, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})

	for _, part := range []struct {
		name string
		run  func(*testing.T, *Cluster, kubernetes.Interface)
	}{
		{"a pod without root writes into a folder of its volume that the kubelet made", testVolume},
		{"a volume's folder goes with its claim", testVolumeRemoval},
		{"a Service is found by name, by pods and by the host", testService},
		{"the API server is reached from a pod by name", testAPIServerFromPod},
		{"a second Up changes nothing", testSecondUp},
		{"a killed kubelet comes back", testKilledKubelet},
		{"a killed node is repaired by Up, and its pods come back", testKilledNode},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(t, cluster, client) }) {
			t.FailNow()
		}
	}

	if err := Down(ctx, config, testProgress{t}); err != nil {
		t.Fatal(err)
	}
	assertNothingLeft(t, config)
	if err := Down(ctx, config, testProgress{t}); err != nil {
		t.Errorf("a second Down: %v", err)
	}
	if _, err := Open(config); !errors.Is(err, ErrNotFound) {
		t.Errorf("opening a removed cluster: %v", err)
	}
}

// takePorts listens where the components of a cluster do, on all addresses: a cluster has a network of its own and asks for no port of
// the host. One that is taken already by somebody else does as well.
func takePorts(t *testing.T) {
	t.Helper()
	for _, port := range []int{53, 2379, 2380, 6443, 8181, 10248, 10249, 10250, 10256, 10257, 10259} {
		if listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			t.Cleanup(func() { listener.Close() })
		}
	}
}

func TestAnInterruptedUpLeavesNothing(t *testing.T) {
	config := testConfig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// Cancelled once the node runs and while its components start.
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(config.paths().status()); err == nil {
				cancel()
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if _, err := Up(ctx, config, testProgress{t}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the cancellation", err)
	}
	assertNothingLeft(t, config)
}

func TestAComponentThatDoesNotStartIsNamedWithItsLog(t *testing.T) {
	config := testConfig(t)
	binaries, err := config.Builder.Build(t.Context(), testProgress{t}, parts.ClusterParts()...)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "etcd")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho these are the last words\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	binaries[parts.Etcd] = broken
	_, err = upWith(t.Context(), config, binaries, testProgress{t})
	if err == nil {
		t.Fatal("a cluster without etcd came up")
	}
	for _, want := range []string{"etcd ended", "exit code 7", "these are the last words"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	assertNothingLeft(t, config)
}

// testConfig is a cluster of its own for a test, which is removed with it. Without root there can be none.
func testConfig(t *testing.T) Config {
	t.Helper()
	if testing.Short() {
		t.Skip("this test starts a real cluster, which -short leaves out")
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("this test starts a real cluster, which needs Linux and root")
	}
	// Not t.TempDir: sockets need short paths.
	root, err := os.MkdirTemp("", "mg")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Name: "test", StateRoot: root, UnsafeNoFsync: true}
	t.Cleanup(func() {
		if err := Down(context.Background(), config, testProgress{t}); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
		_ = os.Remove(root)
	})
	return config
}

type testProgress struct{ t *testing.T }

func (p testProgress) Write(line []byte) (int, error) {
	p.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

func buildProbe(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	binary := filepath.Join(folder, "probe")
	command := exec.Command("go", "build", "-o", binary, "./testdata/probe")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the probe: %v\n%s", err, said)
	}
	file := filepath.Join(folder, "probe.tar")
	err := image.Build(image.Spec{
		Ref: probeImage, Entrypoint: []string{"/probe"}, Files: []image.File{{Path: "/probe", Source: binary}},
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func testVolume(t *testing.T, _ *Cluster, client kubernetes.Interface) {
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod} {
		name := strings.ToLower(string(mode))
		create(t, client.CoreV1().PersistentVolumeClaims(namespace).Create, renderClaim(name, mode))
		writer := renderPod("write-"+name, "write", "/data/note", "kept")
		mountClaim(writer, name, "deep/folder")
		runPod(t, client, writer)

		reader := renderPod("read-"+name, "read", "/data/deep/folder/note")
		mountClaim(reader, name, "")
		if said := runPod(t, client, reader); said != "read kept as user 65532\n" {
			t.Errorf("%s: the second pod said %q", mode, said)
		}
	}
}

func testVolumeRemoval(t *testing.T, cluster *Cluster, client kubernetes.Interface) {
	ctx := t.Context()
	claim, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "readwriteonce", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(cluster.StateDir(), "volumes", claim.Spec.VolumeName)
	if _, err := os.Stat(folder); err != nil {
		t.Fatalf("the volume's folder: %v", err)
	}
	for _, pod := range []string{"write-readwriteonce", "read-readwriteonce"} {
		if err := client.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume and its folder are gone", func() error {
		if _, err := os.Stat(folder); err == nil {
			return fmt.Errorf("%s is there", folder)
		}
		_, err := client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err == nil {
			return errors.New("the PersistentVolume is there")
		}
		return nil
	})
}

func testService(t *testing.T, _ *Cluster, client kubernetes.Interface) {
	server := renderPod("web", "serve", ":8080")
	server.Labels = map[string]string{"app": "web"}
	server.Spec.RestartPolicy = corev1.RestartPolicyAlways
	create(t, client.CoreV1().Pods(namespace).Create, server)
	service := create(t, client.CoreV1().Services(namespace).Create, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: server.Labels, Ports: []corev1.ServicePort{{Port: 8080}}},
	})
	said := runPod(t, client, renderPod("ask-web", "get", "http://web."+namespace+".svc:8080/"))
	if said != "answer 200 hello from web\n" {
		t.Errorf("the pod heard %q", said)
	}
	eventually(t, "the host reaches the Service", func() error { return askWeb(t.Context(), service) })
}

func askWeb(ctx context.Context, service *corev1.Service) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+service.Spec.ClusterIP+":8080/", nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{}}).Do(request) // Without the environment's proxy.
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && string(body) != "hello from web" {
		err = fmt.Errorf("the host heard %q", body)
	}
	return err
}

func testAPIServerFromPod(t *testing.T, _ *Cluster, client kubernetes.Interface) {
	said := runPod(t, client, renderPod("ask-api", "get", "https://kubernetes.default.svc/version"))
	if !strings.Contains(said, `"gitVersion": "v1.37`) {
		t.Errorf("the pod heard %q", said)
	}
}

func testSecondUp(t *testing.T, cluster *Cluster, client kubernetes.Interface) {
	before, _, err := runningNode(cluster.config.paths())
	if err != nil {
		t.Fatal(err)
	}
	exits := totalExits(t, cluster)
	var said bytes.Buffer
	if _, err := Up(t.Context(), cluster.config, &said); err != nil {
		t.Fatal(err)
	}
	after, running, err := runningNode(cluster.config.paths())
	if err != nil || !running || after != before || totalExits(t, cluster) != exits {
		t.Errorf("the node was %+v and is %+v (running %v, %v); it said:\n%s", before, after, running, err, said.String())
	}
}

func totalExits(t *testing.T, cluster *Cluster) int {
	t.Helper()
	processes, running, err := cluster.Status()
	if err != nil || !running {
		t.Fatalf("running %v, %v", running, err)
	}
	total := 0
	for _, process := range processes {
		total += process.Exits
	}
	return total
}

func testKilledKubelet(t *testing.T, cluster *Cluster, client kubernetes.Interface) {
	kubelet := hostPID(t, "--root-dir="+cluster.config.paths().in("kubelet"))
	if err := syscall.Kill(kubelet, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node reports the end and a new kubelet", func() error {
		all, err := cluster.liveStatus()
		if status := find(all, processKubelet); err == nil && (status.Exits < 1 || status.PID == 0) {
			err = fmt.Errorf("status is %+v", status)
		}
		return err
	})
	if err := cluster.WaitReady(t.Context(), testProgress{t}); err != nil {
		t.Fatal(err)
	}
	runPod(t, client, renderPod("after-kubelet", "read", "/probe"))
}

func testKilledNode(t *testing.T, cluster *Cluster, client kubernetes.Interface) {
	ctx := t.Context()
	node, _, err := runningNode(cluster.config.paths())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(node.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing of the cluster runs", func() error {
		if count := cgroupProcesses(cluster.config); count > 0 {
			return fmt.Errorf("%d processes run", count)
		}
		return nil
	})
	if _, err := Up(ctx, cluster.config, testProgress{t}); err != nil {
		t.Fatal(err)
	}
	service, err := client.CoreV1().Services(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("what was stored before is lost: %v", err)
	}
	eventually(t, "the pod serves again", func() error { return askWeb(ctx, service) })
	reader := renderPod("read-again", "read", "/data/deep/folder/note")
	mountClaim(reader, "readwriteoncepod", "")
	if said := runPod(t, client, reader); !strings.HasPrefix(said, "read kept") {
		t.Errorf("the volume's content after the restart: %q", said)
	}
}

func assertNothingLeft(t *testing.T, config Config) {
	t.Helper()
	left, err := Leftovers(t.Context(), config)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s (%v)", strings.Join(left, "; "), err)
	}
}

// hostPID finds the process with the argument, among all of the machine.
func hostPID(t *testing.T, argument string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		var pid int
		if err == nil && bytes.Contains(content, []byte("\x00"+argument+"\x00")) {
			if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil {
				return pid
			}
		}
	}
	t.Fatalf("no process has the argument %s", argument)
	return 0
}
