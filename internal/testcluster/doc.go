// Package testcluster gives tests a real etcd and kube-apiserver with the CRDs of Magos. It takes the binaries from the folder
// that $KUBEBUILDER_ASSETS names, and fails where there are none: a test that is skipped proves nothing.
package testcluster
