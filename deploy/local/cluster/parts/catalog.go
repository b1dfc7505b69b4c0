package parts

import "strings"

// Part is one binary that the local cluster, its tests or an image need and that is built from source.
type Part struct {
	// Name is the name of the binary and the key that Build takes.
	Name string
	// Module is the folder of the Go module that pins the part, relative to the root of the repository.
	Module string
	// Package is the main package, as `go build` takes it when it runs in Module.
	Package string
	// LinkFlags are the flags of the linker besides `-s -w`.
	LinkFlags []string
	// Sources are the folders, relative to Module, whose Go files are part of the binary's identity. What comes
	// from the module cache needs no entry: go.sum names it.
	Sources []string

	// link is the file in the cache that leads to the binary with this part's key.
	link string
}

const kubernetesVersion = "v1.37.2"

// Names of the parts, so that callers need not repeat strings.
const (
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KubeProxy             = "kube-proxy"
	KubeScheduler         = "kube-scheduler"
	Kubectl               = "kubectl"
	Kubelet               = "kubelet"
	Etcd                  = "etcd"
	CoreDNS               = "coredns"
	Pause                 = "pause"
	Node                  = "magos-node"
	OpenTofu              = "tofu"
	ProviderTime          = "terraform-provider-time"
	Helm                  = "helm"
	Grpcurl               = "grpcurl"
	Kwok                  = "kwok"
)

// ClusterParts are the parts that a one-node cluster runs.
func ClusterParts() []string {
	return []string{
		Etcd, KubeAPIServer, KubeControllerManager, KubeScheduler, Kubelet, KubeProxy, Kubectl, CoreDNS, Pause, Node,
	}
}

func catalog() []Part {
	return []Part{
		kubernetesPart(KubeAPIServer),
		kubernetesPart(KubeControllerManager),
		kubernetesPart(KubeProxy),
		kubernetesPart(KubeScheduler),
		kubernetesPart(Kubectl),
		kubernetesPart(Kubelet),
		{Name: Etcd, Module: "tools/cluster/etcd", Package: "go.etcd.io/etcd/server/v3"},
		{Name: CoreDNS, Module: "tools/cluster/coredns", Package: "github.com/coredns/coredns"},
		{Name: Pause, Module: "tools/cluster/pause", Package: ".", Sources: []string{"."}},
		{Name: Helm, Module: "tools/helm", Package: "helm.sh/helm/v4/cmd/helm"},
		{Name: Grpcurl, Module: "tools", Package: "github.com/fullstorydev/grpcurl/cmd/grpcurl"},
		{Name: Kwok, Module: "tools/cluster/kwok", Package: "sigs.k8s.io/kwok/cmd/kwok"},
		{
			Name: OpenTofu, Module: "tools/cluster/opentofu", Package: "github.com/opentofu/opentofu/cmd/tofu",
			LinkFlags: []string{"-X github.com/opentofu/opentofu/version.dev=no"},
		},
		{
			Name: ProviderTime, Module: "tools/cluster/provider-time",
			Package: "github.com/hashicorp/terraform-provider-time",
		},
		{
			Name: Node, Module: "deploy/local", Package: "./cluster/node",
			Sources: []string{"cluster/node", "cluster/provision", "cluster/supervise"},
		},
	}
}

// kubernetesPart stamps the version, which a build from the module cache does not know: the kubelet reports it, and
// clients choose features by it.
func kubernetesPart(name string) Part {
	number := strings.Split(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			"-X "+pkg+".gitVersion="+kubernetesVersion,
			"-X "+pkg+".gitMajor="+number[0],
			"-X "+pkg+".gitMinor="+number[1],
			"-X "+pkg+".gitTreeState=archive",
		)
	}
	return Part{
		Name: name, Module: "tools/cluster/kubernetes", Package: "k8s.io/kubernetes/cmd/" + name, LinkFlags: flags,
	}
}
