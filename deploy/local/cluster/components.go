package cluster

import (
	"fmt"

	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/cluster/supervise"
)

// Names of the processes, which are also the names of their logs.
const (
	processEtcd        = "etcd"
	processContainerd  = "containerd"
	processAPIServer   = "kube-apiserver"
	processController  = "kube-controller-manager"
	processScheduler   = "kube-scheduler"
	processKubelet     = "kubelet"
	processProxy       = "kube-proxy"
	processCoreDNS     = "coredns"
	processProvisioner = "provisioner"
)

// components renders what the node runs from the places of the binaries.
type components struct {
	config   Config
	network  network
	binaries map[string]string
	// containerd is Debian's, found on the host.
	containerd string
}

func (c components) processes() []supervise.Process {
	return []supervise.Process{
		c.etcd(), c.containerdProcess(), c.apiServer(), c.controllerManager(), c.scheduler(), c.kubelet(), c.proxy(),
		c.coreDNS(), c.provisioner(),
	}
}

func (c components) pki(name string) string { return c.config.paths().in("pki", name) }

func (c components) etcd() supervise.Process {
	arguments := []string{
		"--name=" + c.config.nodeName(),
		"--data-dir=" + c.config.paths().in("etcd"),
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + c.config.nodeName() + "=http://127.0.0.1:2380",
		"--auto-compaction-retention=1h",
	}
	if c.config.UnsafeNoFsync {
		arguments = append(arguments, "--unsafe-no-fsync")
	}
	return supervise.Process{
		Name: processEtcd, Path: c.binaries[parts.Etcd], Args: arguments, ReadyURL: "http://127.0.0.1:2379/readyz",
	}
}

func (c components) containerdProcess() supervise.Process {
	return supervise.Process{
		Name: processContainerd, Path: c.containerd,
		Args:        []string{"--config=" + c.config.paths().in("containerd.toml")},
		ReadySocket: c.config.paths().containerdSocket(),
	}
}

func (c components) apiServer() supervise.Process {
	return supervise.Process{
		Name: processAPIServer, Path: c.binaries[parts.KubeAPIServer], After: []string{processEtcd},
		ReadyURL: "https://127.0.0.1:6443/readyz",
		Args: append(c.auditFlags(),
			"--etcd-servers=http://127.0.0.1:2379",
			"--bind-address=0.0.0.0", "--secure-port=6443",
			"--advertise-address="+c.network.nodeAddress().String(),
			"--service-cluster-ip-range="+c.network.services().String(),
			"--tls-cert-file="+c.pki(certAPIServer+".crt"), "--tls-private-key-file="+c.pki(certAPIServer+".key"),
			"--client-ca-file="+c.pki("ca.crt"),
			"--kubelet-certificate-authority="+c.pki("ca.crt"),
			"--kubelet-client-certificate="+c.pki(certKubeletClient+".crt"),
			"--kubelet-client-key="+c.pki(certKubeletClient+".key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file="+c.pki(keyServiceAccount+".pub"),
			"--service-account-signing-key-file="+c.pki(keyServiceAccount+".key"),
			"--requestheader-client-ca-file="+c.pki("front-proxy/ca.crt"),
			"--requestheader-allowed-names="+certFrontProxy,
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file="+c.pki("front-proxy/"+certFrontProxy+".crt"),
			"--proxy-client-key-file="+c.pki("front-proxy/"+certFrontProxy+".key"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--profiling=false",
		),
	}
}

func (c components) controllerManager() supervise.Process {
	return supervise.Process{
		Name: processController, Path: c.binaries[parts.KubeControllerManager], After: []string{processAPIServer},
		ReadyURL: "https://127.0.0.1:10257/healthz",
		Args: []string{
			"--kubeconfig=" + c.pki(certController+".kubeconfig"),
			"--authentication-kubeconfig=" + c.pki(certController+".kubeconfig"),
			"--authorization-kubeconfig=" + c.pki(certController+".kubeconfig"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			// Its own limit is for clusters of many; here it would be what everything waits for.
			"--kube-api-qps=500", "--kube-api-burst=1000",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.pki(keyServiceAccount+".key"),
			"--root-ca-file=" + c.pki("ca.crt"),
			// Its default is a folder of the host, which it would make.
			"--flex-volume-plugin-dir=" + c.config.paths().in("kubelet", "volume-plugins"),
			"--cluster-signing-cert-file=" + c.pki("ca.crt"), "--cluster-signing-key-file=" + c.pki("ca.key"),
			"--profiling=false",
		},
	}
}

func (c components) scheduler() supervise.Process {
	return supervise.Process{
		Name: processScheduler, Path: c.binaries[parts.KubeScheduler], After: []string{processAPIServer},
		ReadyURL: "https://127.0.0.1:10259/healthz",
		Args: []string{
			"--kubeconfig=" + c.pki(certScheduler+".kubeconfig"),
			"--authentication-kubeconfig=" + c.pki(certScheduler+".kubeconfig"),
			"--authorization-kubeconfig=" + c.pki(certScheduler+".kubeconfig"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			// Its own limit is for clusters of many; here it would be what everything waits for.
			"--kube-api-qps=500", "--kube-api-burst=1000",
			"--profiling=false",
		},
	}
}

func (c components) kubelet() supervise.Process {
	return supervise.Process{
		Name: processKubelet, Path: c.binaries[parts.Kubelet], After: []string{processAPIServer, processContainerd},
		ReadyURL: "http://127.0.0.1:10248/healthz",
		Args: []string{
			"--config=" + c.config.paths().in("kubelet.yaml"),
			"--kubeconfig=" + c.pki(certKubelet+".kubeconfig"),
			"--hostname-override=" + c.config.nodeName(),
			"--node-ip=" + c.network.nodeAddress().String(),
			"--root-dir=" + c.config.paths().in("kubelet"),
		},
	}
}

func (c components) proxy() supervise.Process {
	return supervise.Process{
		Name: processProxy, Path: c.binaries[parts.KubeProxy], After: []string{processAPIServer},
		ReadyURL: "http://127.0.0.1:10256/livez",
		Args: []string{
			"--config=" + c.config.paths().in("kube-proxy.yaml"),
			"--hostname-override=" + c.config.nodeName(),
		},
	}
}

func (c components) coreDNS() supervise.Process {
	return supervise.Process{
		Name: processCoreDNS, Path: c.binaries[parts.CoreDNS], After: []string{processAPIServer},
		Args:     []string{"-conf=" + c.config.paths().in("Corefile")},
		ReadyURL: fmt.Sprintf("http://127.0.0.1:%d/ready", coreDNSReadyPort),
	}
}

func (c components) provisioner() supervise.Process {
	return supervise.Process{
		Name: processProvisioner, Path: c.binaries[parts.Node], After: []string{processAPIServer},
		Args: []string{
			"provision", c.pki(certProvisioner + ".kubeconfig"), c.config.nodeName(), c.config.paths().in("volumes"),
		},
	}
}
