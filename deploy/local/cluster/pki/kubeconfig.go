package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig that reaches the server with the certificate called name. The certificates are
// inside the file, so that it can be copied.
func (a *Authority) WriteKubeconfig(path, cluster, server, name string) error {
	authority, err := os.ReadFile(a.CertificateFile("ca"))
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	certificate, err := os.ReadFile(a.CertificateFile(name))
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	key, err := os.ReadFile(a.KeyFile(name))
	if err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: name}
	config.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}
