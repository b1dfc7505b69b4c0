package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/refs"
	"magosproject.io/internal/repocreds"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// repositorySecrets selects the Secrets that hold credentials of repositories. No other Secret is ever asked for.
var repositorySecrets = labels.SelectorFromSet(labels.Set{v1alpha1.LabelSecretType: v1alpha1.SecretTypeRepository})

// SecretCache is how Secrets are cached: only those with the label, with nothing but their data and versions.
func SecretCache() cache.ByObject {
	return cache.ByObject{Label: repositorySecrets, Transform: func(object any) (any, error) {
		if secret, ok := object.(*corev1.Secret); ok {
			secret.ManagedFields, secret.Annotations = nil, nil
		}
		return object, nil
	}}
}

// Credentials finds the credential that a Workspace's repository is reached with. It is safe for concurrent use.
type Credentials struct {
	secrets client.Reader
	schemes []string

	mutex sync.Mutex
	kept  map[string]*namespaceSecrets
}

// namespaceSecrets are those of one namespace, read once per version of each.
type namespaceSecrets struct {
	// identity changes with every change of a Secret.
	identity string
	versions map[string]string
	set      *repocreds.Set
}

// NewCredentials makes Credentials. The reader must know the labelled Secrets at least; the manager's cache with SecretCache is one.
func NewCredentials(secrets client.Reader, schemes []string) *Credentials {
	return &Credentials{secrets: secrets, schemes: schemes, kept: map[string]*namespaceSecrets{}}
}

// Access says how the repository of a Workspace is reached. An error means that the Secrets could not be read; that one cannot be used is no error but
// the answer's Trouble.
func (c *Credentials) Access(ctx context.Context, w *v1alpha1.Workspace) (schedule.Access, error) {
	want := schedule.WantOf(w.Spec.Source, c.schemes)
	if !want.Polled() {
		return schedule.Access{}, nil
	}
	known, err := c.of(ctx, w.Namespace)
	if err != nil {
		return schedule.Access{}, err
	}
	credential, err := known.set.For(want.URL)
	if err != nil {
		return schedule.Access{Trouble: &schedule.Trouble{Reason: v1alpha1.ReasonCredentialInvalid, Message: err.Error()}}, nil //nolint:nilerr // it is told as the trouble
	}
	if credential == nil {
		return schedule.Access{Note: note(known.set.Unusable())}, nil
	}
	return schedule.Access{
		Namespace: w.Namespace, Secret: credential.Secret, Version: known.versions[credential.Secret], Unverified: credential.Unverified(),
	}, nil
}

// Credential is the one of an Access to the repository at url: nil for one without. The Secret may have changed since the Access was made, and then be
// for another host: what is not the very one, for this very URL, is an error. The change makes a new Access, with which the repository is asked at once.
func (c *Credentials) Credential(ctx context.Context, access schedule.Access, url refs.URL) (*repocreds.Credential, error) {
	if access.Secret == "" {
		return nil, nil
	}
	known, err := c.of(ctx, access.Namespace)
	if err != nil {
		return nil, err
	}
	credential, err := known.set.For(url)
	switch {
	case err != nil:
		return nil, err
	case credential == nil || credential.Secret != access.Secret:
		return nil, fmt.Errorf("the repository credential in Secret %s is gone, or no longer the one for this repository", access.Secret)
	case known.versions[credential.Secret] != access.Version:
		return nil, fmt.Errorf("the repository credential in Secret %s was changed just now; the repository is asked again with the new one", access.Secret)
	}
	return credential, nil
}

func (c *Credentials) of(ctx context.Context, namespace string) (*namespaceSecrets, error) {
	var list corev1.SecretList
	// What comes from the cache is shared with it, and is only read.
	err := c.secrets.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: repositorySecrets}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("reading the repository credentials of namespace %s: %w", namespace, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	var identity strings.Builder
	for i := range list.Items {
		fmt.Fprintf(&identity, "%s %s\n", list.Items[i].Name, version(&list.Items[i]))
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known, kept := c.kept[namespace]; kept && known.identity == identity.String() {
		return known, nil
	}
	known := &namespaceSecrets{identity: identity.String(), versions: map[string]string{}}
	secrets := make([]repocreds.Secret, 0, len(list.Items))
	for i := range list.Items {
		secrets = append(secrets, repocreds.Secret{Name: list.Items[i].Name, Data: list.Items[i].Data})
		known.versions[list.Items[i].Name] = version(&list.Items[i])
	}
	known.set = repocreds.NewSet(secrets)
	c.kept[namespace] = known
	return known, nil
}

func version(secret *corev1.Secret) string { return string(secret.UID) + "/" + secret.ResourceVersion }

// note is for those who go without a credential where one of these may have been meant for them.
func note(unusable []*repocreds.MalformedError) string {
	if len(unusable) == 0 {
		return ""
	}
	return "no credential was used; " + unusable[0].Error()
}
