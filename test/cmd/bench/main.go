// Command bench measures what docs/performance.md explains: it brings up a cluster of its own, measures, removes the cluster, and
// prints one JSON object as its last line. It never judges: a figure that got worse is for people to see.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/up"
)

// figures are the keys of the last line.
type figures struct {
	PlanToApplyMS            *float64 `json:"plan_to_apply_ms,omitempty"`
	PlanToApplySpreadMS      *float64 `json:"plan_to_apply_spread_ms,omitempty"`
	PushToPlanningMS         *float64 `json:"push_to_planning_ms,omitempty"`
	PushToPlanningSpreadMS   *float64 `json:"push_to_planning_spread_ms,omitempty"`
	IdleRequestsPerMinute    *float64 `json:"idle_requests_per_minute,omitempty"`
	ImageMBMax               *float64 `json:"image_mb_max,omitempty"`
	RunImageMB               *float64 `json:"run_image_mb,omitempty"`
	ServiceRSSMBMax          *float64 `json:"service_rss_mb_max,omitempty"`
	AppliedRatio             *float64 `json:"applied_ratio,omitempty"`
	RequestsPerRun           *float64 `json:"requests_per_run,omitempty"`
	ConflictShare            *float64 `json:"conflict_share,omitempty"`
	Growth2000               *float64 `json:"growth_2000,omitempty"`
	WorkspaceRSSMB2000       *float64 `json:"workspace_rss_mb_2000,omitempty"`
	StepAdvanceMS            *float64 `json:"step_advance_ms,omitempty"`
	RolloutRequestsPerMember *float64 `json:"rollout_requests_per_member,omitempty"`
	Foreign10000CostRatio    *float64 `json:"foreign_10000_cost_ratio,omitempty"`
	PollsPerMinute5000       *float64 `json:"polls_per_minute_5000,omitempty"`
	RefwatcherRSSMB5000      *float64 `json:"refwatcher_rss_mb_5000,omitempty"`
}

// value is a figure, to three digits after the point.
func value(v float64) *float64 {
	v = math.Round(v*1000) / 1000
	return &v
}

type scenario struct {
	name    string
	measure func(context.Context, *figures) error
}

// scenarios are what can be measured, each in a cluster of its own, in this order.
var scenarios = []scenario{
	{"pods", pods},
	{"workspaces", func(ctx context.Context, out *figures) error {
		return withScale(ctx, func(ctx context.Context, s scale) error { return s.workspaces(ctx, out) })
	}},
	{"rollouts", func(ctx context.Context, out *figures) error {
		return withScale(ctx, func(ctx context.Context, s scale) error { return s.rollouts(ctx, out) })
	}},
	{"watching", func(ctx context.Context, out *figures) error {
		return withScale(ctx, func(ctx context.Context, s scale) error { return s.watching(ctx, out) })
	}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The client would complain at length about having nowhere to log to.
	ctrllog.SetLogger(logr.Discard())
	out, err := run(ctx, os.Args[1:])
	// What was measured before something failed is worth having.
	if encodeErr := json.NewEncoder(os.Stdout).Encode(out); err == nil {
		err = encodeErr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run measures the scenarios that are named, or all.
func run(ctx context.Context, names []string) (out figures, err error) {
	for _, name := range names {
		if !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return out, fmt.Errorf("unknown scenario %q: there are pods, workspaces, rollouts and watching", name)
		}
	}
	for _, s := range scenarios {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		if err := s.measure(ctx, &out); err != nil {
			return out, fmt.Errorf("measuring %s: %w", s.name, err)
		}
	}
	return out, nil
}

// takeDown removes the cluster, also after an interrupt.
func takeDown(options up.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return up.Down(ctx, options)
}

// pods measures the demo on a real node.
func pods(ctx context.Context, out *figures) (err error) {
	options := up.Options{Name: "bench", UnsafeNoFsync: true, Progress: os.Stderr, Values: webhookValues}
	defer func() {
		if downErr := takeDown(options); err == nil {
			err = downErr
		}
	}()
	installation, err := up.Start(ctx, options)
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	if _, err := installation.Demo(ctx); err != nil {
		return fmt.Errorf("starting the demo: %w", err)
	}
	largest, runImage, err := imageSizes(ctx, options)
	if err != nil {
		return err
	}
	out.ImageMBMax, out.RunImageMB = value(largest), value(runImage)
	c, err := newClient(installation.Kubeconfig())
	if err != nil {
		return err
	}
	middle, spread, err := planToApply(ctx, installation, c)
	if err != nil {
		return err
	}
	out.PlanToApplyMS, out.PlanToApplySpreadMS = value(middle), value(spread)
	if middle, spread, err = pushToPlanning(ctx, installation, c); err != nil {
		return err
	}
	out.PushToPlanningMS, out.PushToPlanningSpreadMS = value(middle), value(spread)
	if err := fill(ctx, c, 200); err != nil {
		return err
	}
	requests, memory, err := idle(ctx, c)
	out.IdleRequestsPerMinute, out.ServiceRSSMBMax = value(requests), value(memory)
	return err
}

func newClient(kubeconfig string) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// median returns the middle value and the distance between the quartiles.
func median(values []float64) (middle, spread float64) {
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return values[len(values)/2], values[len(values)*3/4] - values[len(values)/4]
}
