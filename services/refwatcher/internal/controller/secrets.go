package controller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/internal/repocreds"
)

// credentialAction is the verb of the Events on Secrets.
const credentialAction = "ReadCredential"

// SecretReconciler says on a Secret with a repository credential what is wrong with it, whether or not a Workspace needs it yet.
type SecretReconciler struct {
	// Secrets reads from the cache.
	Secrets client.Reader
	// Events are emitted once per version of a malformed Secret.
	Events events.EventRecorder
}

// SetupWithManager makes the manager run it on the leader, for every change of a labelled Secret.
func (r *SecretReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named("refwatcher-credentials").For(&corev1.Secret{}).Complete(r)
}

// Reconcile reads one Secret.
func (r *SecretReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var secret corev1.Secret
	if err := r.Secrets.Get(ctx, request.NamespacedName, &secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading Secret %s: %w", request, err)
	}
	// One that is not there has no labels either.
	if !repositorySecrets.Matches(labels.Set(secret.Labels)) {
		return reconcile.Result{}, nil
	}
	var malformed *repocreds.MalformedError
	if _, err := repocreds.Parse(repocreds.Secret{Name: secret.Name, Data: secret.Data}); errors.As(err, &malformed) {
		r.Events.Eventf(&secret, nil, corev1.EventTypeWarning, v1alpha1.ReasonCredentialInvalid, credentialAction, "%s", malformed)
	}
	return reconcile.Result{}, nil
}
