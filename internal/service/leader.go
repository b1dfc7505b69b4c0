package service

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"magosproject.io/internal/rpcerr"
)

// newIdentity names this process in its Lease: host, address, and something unique, so that a restarted pod does not take itself for the leader it was.
func newIdentity(address string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%s_%s", host, address, uuid.NewUUID())
}

// addressOf is the address in an identity, empty if it has none.
func addressOf(identity string) string {
	parts := strings.Split(identity, "_")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// lock is the Lease magos-<service>.
func (k *Kit) lock() resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: k.Config.ReleaseNamespace, Name: k.leaseName()},
		Client:     leasesGetter{k.leases},
		LockConfig: resourcelock.ResourceLockConfig{Identity: k.identity},
	}
}

func (k *Kit) leaseName() string { return "magos-" + k.Name }

// leasesGetter hands out the one client that this package has.
type leasesGetter struct {
	leases coordinationv1client.LeaseInterface
}

func (g leasesGetter) Leases(string) coordinationv1client.LeaseInterface { return g.leases }

// LeaderAddress is where the leader's gRPC server listens, and whether that is this process. Without a leader whose lease is
// in force the error is UNAVAILABLE with the reason NO_LEADER.
func (k *Kit) LeaderAddress(ctx context.Context) (address string, self bool, err error) {
	if !k.Config.LeaderElect {
		return k.Config.AdvertiseAddress, true, nil
	}
	lease, err := k.leases.Get(ctx, k.leaseName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", false, fmt.Errorf("looking for the leader: %w", err)
	}
	none := rpcerr.New(codes.Unavailable, rpcerr.NoLeader, "no replica of %s leads at present; try again", k.Name).WithRetryAfter(k.Config.RetryPeriod)
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.RenewTime == nil {
		return "", false, none
	}
	holder := *lease.Spec.HolderIdentity
	if holder == k.identity {
		return k.Config.AdvertiseAddress, true, nil
	}
	if time.Since(lease.Spec.RenewTime.Time) > k.Config.LeaseDuration || addressOf(holder) == "" {
		return "", false, none
	}
	return addressOf(holder), false, nil
}
