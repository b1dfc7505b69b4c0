// Command bench measures what docs/performance.md explains: it brings up a cluster of its own, measures, removes the cluster, and
// prints one JSON object as its last line. It never judges: a figure that got worse is for people to see.
package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	PlanToApplyMS         float64 `json:"plan_to_apply_ms"`
	PlanToApplySpreadMS   float64 `json:"plan_to_apply_spread_ms"`
	IdleRequestsPerMinute float64 `json:"idle_requests_per_minute"`
	ImageMBMax            float64 `json:"image_mb_max"`
	RunImageMB            float64 `json:"run_image_mb"`
	ServiceRSSMBMax       float64 `json:"service_rss_mb_max"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The client would complain at length about having nowhere to log to.
	ctrllog.SetLogger(logr.Discard())
	out, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (out figures, err error) {
	options := up.Options{Name: "bench", UnsafeNoFsync: true, Progress: os.Stderr}
	defer func() {
		// Also after an interrupt, which is why ctx is not used.
		ending, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if downErr := up.Down(ending, options); err == nil {
			err = downErr
		}
	}()
	installation, err := up.Start(ctx, options)
	if err != nil {
		return out, fmt.Errorf("starting the cluster: %w", err)
	}
	if _, err := installation.Demo(ctx); err != nil {
		return out, fmt.Errorf("starting the demo: %w", err)
	}
	if out.ImageMBMax, out.RunImageMB, err = imageSizes(ctx, options); err != nil {
		return out, err
	}
	c, err := newClient(installation.Kubeconfig())
	if err != nil {
		return out, err
	}
	if out.PlanToApplyMS, out.PlanToApplySpreadMS, err = planToApply(ctx, installation, c); err != nil {
		return out, err
	}
	if err := fill(ctx, c, 200); err != nil {
		return out, err
	}
	out.IdleRequestsPerMinute, out.ServiceRSSMBMax, err = idle(ctx, c)
	return out, err
}

func newClient(kubeconfig string) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
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
