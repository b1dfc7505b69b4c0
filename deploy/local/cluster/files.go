package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const coreDNSReadyPort = 8181

// pluginFolder is where Debian's containernetworking-plugins are.
const pluginFolder = "/usr/lib/cni"

// writeFiles writes the configuration files of the components that do not take everything as flags.
func (c components) writeFiles(resolvers []string) error {
	kubelet, err := json.MarshalIndent(c.kubeletConfig(), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	proxy, err := json.MarshalIndent(c.proxyConfig(), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding kube-proxy's configuration: %w", err)
	}
	networks, err := json.MarshalIndent(c.networkConfig(), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the pod network's configuration: %w", err)
	}
	files := map[string]string{
		"containerd.toml":      c.containerdConfig(),
		"kubelet.yaml":         string(kubelet),
		"kube-proxy.yaml":      string(proxy),
		"cni/10-pods.conflist": string(networks),
		"Corefile":             c.corefile(resolvers),
		auditPolicyFile:        auditPolicy,
	}
	for name, content := range files {
		path := c.config.paths().in(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	return nil
}

// containerdConfig: restrict_oom_score_adj, because a machine without CAP_SYS_RESOURCE could not start a sandbox
// otherwise. State and shim sockets go to the node's own /run.
func (c components) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = %[1]q
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]

[grpc]
  address = %[2]q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[3]q
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[4]q
    conf_dir = %[5]q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`, c.config.paths().in("containerd"), c.config.paths().containerdSocket(), pauseRef(c.binaries), pluginFolder,
		c.config.paths().in("cni"))
}

// networkConfig gives each pod a veth and a route of its own (ptp) instead of a port of a shared bridge: answers of a
// Service's pod then pass the node's connection tracking also when asker and pod are neighbours.
func (c components) networkConfig() map[string]any {
	return map[string]any{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []map[string]any{
			{
				"type":   "ptp",
				"ipMasq": false,
				"ipam": map[string]any{
					"type":   "host-local",
					"ranges": [][]map[string]string{{{"subnet": c.network.pods().String()}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}
}

// kubeletConfig is generous where a developer's machine is tighter than a server: swap, full disks, old control
// groups. Images are never collected, since there is no registry to get them back from.
func (c components) kubeletConfig() map[string]any {
	files := c.config.paths()
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"address":    "0.0.0.0",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": c.pki("ca.crt")},
		},
		"authorization":               map[string]any{"mode": "Webhook"},
		"tlsCertFile":                 c.pki(certKubelet + ".crt"),
		"tlsPrivateKeyFile":           c.pki(certKubelet + ".key"),
		"containerRuntimeEndpoint":    "unix://" + files.containerdSocket(),
		"cgroupDriver":                "cgroupfs",
		"cgroupRoot":                  "/" + c.config.cgroupName(),
		"failCgroupV1":                false,
		"failSwapOn":                  false,
		"oomScoreAdj":                 0,
		"enforceNodeAllocatable":      []string{},
		"maxPods":                     110,
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{
			"memory.available": "50Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
		},
		"clusterDNS":      []string{c.network.nodeAddress().String()},
		"clusterDomain":   "cluster.local",
		"resolvConf":      files.in("resolv.conf"),
		"podLogsDir":      files.in("pod-logs"),
		"volumePluginDir": files.in("kubelet", "volume-plugins"),
	}
}

// proxyConfig leaves the sizes of connection tracking alone: they belong to the whole machine.
func (c components) proxyConfig() map[string]any {
	return map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "nftables",
		"clusterCIDR":        c.network.pods().String(),
		"clientConnection":   map[string]any{"kubeconfig": c.pki(certProxy + ".kubeconfig")},
		"healthzBindAddress": "127.0.0.1:10256",
		"metricsBindAddress": "127.0.0.1:10249",
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
	}
}

// corefile serves the cluster's names on the node's address, which is every pod's resolver. Names of the cluster are
// not cached: they change quickly, and the answer is in memory anyway.
func (c components) corefile(resolvers []string) string {
	var text strings.Builder
	fmt.Fprintf(&text, ".:53 {\n    bind %s\n    errors\n", c.network.nodeAddress())
	fmt.Fprintf(&text, "    ready 127.0.0.1:%d\n", coreDNSReadyPort)
	fmt.Fprintf(&text, "    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        kubeconfig %s\n", c.pki(certCoreDNS+".kubeconfig"))
	text.WriteString("        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n        ttl 5\n    }\n")
	if len(resolvers) > 0 {
		fmt.Fprintf(&text, "    forward . %s\n", strings.Join(resolvers, " "))
		text.WriteString("    cache 30 {\n        disable success cluster.local\n        disable denial cluster.local\n    }\n")
	}
	text.WriteString("}\n")
	return text.String()
}
