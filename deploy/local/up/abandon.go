package up

import (
	"context"
	"errors"
	"fmt"
	"os"

	"magosproject.io/deploy/local/cluster"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/diskspace"
)

// buildNeed is for the images of a Magos whose parts are built already.
const buildNeed = diskspace.Gibibyte / 2

// check refuses what cannot work before minutes are spent on building.
func check(ctx context.Context, options Options) error {
	if options.Kubeconfig == "" {
		if err := cluster.Check(ctx, options.cluster(), options.Progress); err != nil {
			return err
		}
	}
	for _, need := range buildNeeds() {
		if err := need.Check(); err != nil {
			return err
		}
	}
	return nil
}

// buildNeeds are the places that building writes to.
func buildNeeds() []diskspace.Need {
	needs := []diskspace.Need{
		{Folder: parts.GoCache(), Bytes: buildNeed, Purpose: "building Magos", Variable: "GOCACHE"},
		{Folder: os.TempDir(), Bytes: buildNeed, Purpose: "building images", Variable: "TMPDIR"},
	}
	if cache, err := parts.DefaultCache(); err == nil {
		needs = append(needs, diskspace.Need{Folder: cache, Bytes: buildNeed, Purpose: "building images", Variable: "MAGOS_CACHE"})
	}
	return needs
}

// abandon ends what was begun and failed with err. It removes a cluster that was not there before when somebody pressed Ctrl-C or a
// disk is full: what is left of it would be of no use, and in the way. After another failure people want to look.
func abandon(ctx context.Context, options Options, installation *Installation, err error) error {
	needs := buildNeeds()
	if state, stateErr := cluster.StateNeed(options.cluster()); stateErr == nil && options.Kubeconfig == "" {
		needs = append(needs, state)
	}
	err, full := diskspace.Explain(err, needs...)
	stopped := ctx.Err() != nil
	if !stopped && !full {
		return err
	}
	found := installation != nil && (installation.local == nil || !installation.local.IsNew())
	switch {
	case stopped && found:
		return fmt.Errorf("interrupted: the cluster was there before and stays; `make up` goes on, `make down` removes it: %w", ctx.Err())
	case stopped:
		err = fmt.Errorf("interrupted: nothing stays but what was built and a cluster that was there before; `make up` begins again: %w", ctx.Err())
	}
	if found || installation == nil {
		return err // There is nothing new, or package cluster has removed it.
	}
	// The context may have ended; cleaning up must not.
	return errors.Join(err, cluster.Down(context.WithoutCancel(ctx), options.cluster(), options.Progress))
}
