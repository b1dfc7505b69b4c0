package cluster

import (
	"fmt"
	"net"
	"time"

	"magosproject.io/deploy/local/cluster/pki"
)

// Names of certificates, and of the kubeconfig files that carry them.
const (
	certAPIServer     = "apiserver"
	certKubeletClient = "apiserver-kubelet-client"
	certKubelet       = "kubelet"
	certController    = "controller-manager"
	certScheduler     = "scheduler"
	certProxy         = "kube-proxy"
	certCoreDNS       = "coredns"
	certProvisioner   = "provisioner"
	certAdmin         = "admin"
	certFrontProxy    = "front-proxy-client"
	keyServiceAccount = "service-accounts"
)

const (
	userCoreDNS     = "system:coredns"
	userProvisioner = "system:magos-provisioner"
)

// prepareCertificates makes or renews the certificates and writes the kubeconfig files.
func prepareCertificates(config Config, network network, now time.Time) error {
	files := config.paths()
	authority, err := pki.Open(files.in("pki"), now)
	if err != nil {
		return err
	}
	node, loopback := net.IP(network.nodeAddress().AsSlice()), net.IPv4(127, 0, 0, 1)
	requests := []pki.Request{
		{
			Name: certAPIServer, User: "kube-apiserver",
			Hosts: []string{
				"localhost", config.nodeName(), "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local",
			},
			Addresses: []net.IP{node, loopback, network.kubernetesService().AsSlice()},
		},
		{Name: certKubeletClient, User: "kube-apiserver-kubelet-client", Groups: []string{"system:masters"}},
		{
			Name: certKubelet, User: "system:node:" + config.nodeName(), Groups: []string{"system:nodes"},
			Hosts: []string{config.nodeName()}, Addresses: []net.IP{node, loopback},
		},
		{Name: certController, User: "system:kube-controller-manager"},
		{Name: certScheduler, User: "system:kube-scheduler"},
		{Name: certProxy, User: "system:kube-proxy"},
		{Name: certCoreDNS, User: userCoreDNS},
		{Name: certProvisioner, User: userProvisioner},
		{Name: certAdmin, User: "kubernetes-admin", Groups: []string{"system:masters"}},
	}
	for _, request := range requests {
		if err := authority.Ensure(request); err != nil {
			return err
		}
	}
	// Whoever has a certificate of this authority may speak to the API server in another's name, so it is another one.
	frontProxy, err := pki.Open(files.in("pki", "front-proxy"), now)
	if err != nil {
		return err
	}
	if err := frontProxy.Ensure(pki.Request{Name: certFrontProxy, User: certFrontProxy}); err != nil {
		return err
	}
	if err := authority.EnsureSigningKey(keyServiceAccount); err != nil {
		return err
	}
	for _, name := range []string{certKubelet, certController, certScheduler, certProxy, certCoreDNS, certProvisioner} {
		path := files.in("pki", name+".kubeconfig")
		if err := authority.WriteKubeconfig(path, config.contextName(), network.apiServer(), name); err != nil {
			return err
		}
	}
	if err := authority.WriteKubeconfig(files.kubeconfig(), config.contextName(), network.apiServer(), certAdmin); err != nil {
		return fmt.Errorf("preparing access for people: %w", err)
	}
	return nil
}
