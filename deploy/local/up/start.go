package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"magosproject.io/deploy/local/cluster"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up/chart"
	"magosproject.io/deploy/local/up/helm"
	"magosproject.io/deploy/local/up/images"
)

// Start makes sure that Magos runs, with the demo's Git server and mirror beside it, and returns when all of its pods are
// ready. What is so already stays untouched. It makes no Project: Demo does.
//
// When the context ends, or a disk is full, a cluster that was not there before is removed with everything in it. After other
// failures it stays for a look, and the next Start continues.
func Start(ctx context.Context, options Options) (*Installation, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := check(ctx, options); err != nil {
		return nil, err
	}
	together := options
	together.Progress = &lines{output: options.Progress}
	// Images need no cluster to be built, and a starting cluster mostly waits.
	work, workCtx := errgroup.WithContext(ctx)
	var installation *Installation
	var built map[string]images.Image
	work.Go(func() (err error) {
		installation, err = reach(workCtx, together)
		return err
	})
	work.Go(func() (err error) {
		built, err = buildImages(workCtx, together)
		return err
	})
	if err := work.Wait(); err != nil {
		return nil, abandon(ctx, options, installation, err)
	}
	installation.options = options
	if err := installation.install(ctx, built); err != nil {
		return nil, abandon(ctx, options, installation, fmt.Errorf("installing Magos: %w", err))
	}
	return installation, nil
}

// lines keeps apart what several write at a time.
type lines struct {
	mutex  sync.Mutex
	output io.Writer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.output.Write(text)
}

// reach brings up the cluster, or takes the user's own.
func reach(ctx context.Context, options Options) (*Installation, error) {
	installation := &Installation{options: options, kubeconfig: options.Kubeconfig}
	if options.Kubeconfig == "" {
		local, err := cluster.Up(ctx, options.cluster(), options.Progress)
		if err != nil {
			return nil, err
		}
		installation.local, installation.kubeconfig = local, local.Kubeconfig()
	} else if options.Registry == "" {
		return nil, errors.New("a cluster of your own takes images from a registry only: say with --registry where to push them")
	}
	return installation, installation.equip(ctx)
}

// Open returns an installation that Start has made.
func Open(ctx context.Context, options Options) (*Installation, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	installation := &Installation{options: options, kubeconfig: options.Kubeconfig}
	if options.Kubeconfig == "" {
		local, err := cluster.Open(options.cluster())
		if errors.Is(err, cluster.ErrNotFound) {
			return nil, fmt.Errorf("%w; `make up` makes it", err)
		}
		if err != nil {
			return nil, err
		}
		if _, running, err := local.Status(); err != nil || !running {
			return nil, errors.Join(fmt.Errorf("cluster %s does not run; `make up` starts it again", local.Name()), err)
		}
		installation.local, installation.kubeconfig = local, local.Kubeconfig()
	}
	return installation, installation.equip(ctx)
}

func (i *Installation) equip(ctx context.Context) error {
	programs, err := i.options.builder().Build(ctx, i.options.Progress, parts.Kubectl, parts.Helm, parts.Grpcurl)
	if err != nil {
		return err
	}
	i.programs = programs
	return i.connect()
}

func (i *Installation) install(ctx context.Context, built map[string]images.Image) error {
	if err := i.linkPrograms(); err != nil {
		return err
	}
	started := time.Now()
	built, err := i.bringImages(ctx, built)
	if err != nil {
		return err
	}
	if err := i.bringServer(ctx, built[demoImage].Ref()); err != nil {
		return err
	}
	if err := i.bringRelease(ctx, built); err != nil {
		return err
	}
	if err := i.awaitDeployments(ctx, demo.Namespace, demo.Server); err != nil {
		return err
	}
	var deployments []string
	for _, service := range images.ServiceNames() {
		deployments = append(deployments, "magos-"+service)
	}
	if err := i.awaitDeployments(ctx, chart.Namespace, deployments...); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(i.options.Progress, "Magos is ready (%s)\n", time.Since(started).Round(100*time.Millisecond))
	return nil
}

const (
	runImage  = "magos-run"
	demoImage = "magos-demo-git"
)

// buildImages compiles everything that goes into the images.
func buildImages(ctx context.Context, options Options) (map[string]images.Image, error) {
	cache, err := parts.DefaultCache()
	if err != nil {
		return nil, err
	}
	sources := images.Sources{Root: options.Root, Cache: cache}
	built := map[string]images.Image{}
	for _, service := range images.ServiceNames() {
		if built["magos-"+service], err = sources.Service(ctx, options.Progress, service); err != nil {
			return nil, err
		}
	}
	if built[runImage], err = sources.Run(ctx, options.Progress); err != nil {
		return nil, err
	}
	built[demoImage], err = sources.DemoServer(ctx, options.Progress)
	return built, err
}

// bringImages gives the cluster the images that it does not have, and returns all of them under the names that they have there.
func (i *Installation) bringImages(ctx context.Context, built map[string]images.Image) (map[string]images.Image, error) {
	if i.local == nil {
		return images.Push(ctx, i.options.Registry, built, i.options.Progress)
	}
	return built, images.Load(ctx, i.local, built, i.options.Progress)
}

// bringServer applies the demo's Git server.
func (i *Installation) bringServer(ctx context.Context, image string) error {
	manifests, err := demo.ServerManifests(image)
	if err != nil {
		return err
	}
	return i.report(i.apply(ctx, manifests))
}

func (i *Installation) report(changed []string, err error) error {
	for _, line := range changed {
		_, _ = fmt.Fprintln(i.options.Progress, line)
	}
	return err
}

// bringRelease installs the chart, or upgrades it when chart, values or images have changed.
func (i *Installation) bringRelease(ctx context.Context, built map[string]images.Image) error {
	release, err := chart.Release(i.options.Root, i.values(built))
	if err != nil {
		return err
	}
	client := helm.Client{Binary: i.programs[parts.Helm], Kubeconfig: i.kubeconfig}
	installed, err := client.Installed(ctx, release.Name, release.Namespace)
	if err != nil {
		return err
	}
	if installed == release.Description {
		return nil
	}
	_, _ = fmt.Fprintf(i.options.Progress, "installing the chart into namespace %s\n", release.Namespace)
	return client.Upgrade(ctx, release)
}

func (i *Installation) values(built map[string]images.Image) map[string]any {
	values := map[string]any{}
	for _, service := range images.ServiceNames() {
		values[service] = map[string]any{"image": built["magos-"+service].Ref()}
	}
	maps.Copy(values["runner"].(map[string]any), map[string]any{
		"runImage": built[runImage].Ref(), "toolMirror": demo.ToolMirrorURL, "providerMirror": demo.ProviderMirrorURL,
	})
	return merge(values, i.options.Values)
}

// merge lays the values of over on top of those of base.
func merge(base, over map[string]any) map[string]any {
	merged := maps.Clone(base)
	for key, value := range over {
		below, isMap := merged[key].(map[string]any)
		above, bothMaps := value.(map[string]any)
		if isMap && bothMaps {
			merged[key] = merge(below, above)
			continue
		}
		merged[key] = value
	}
	return merged
}
