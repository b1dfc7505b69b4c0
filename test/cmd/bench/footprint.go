package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/demo"
	"magosproject.io/deploy/local/up"
	"magosproject.io/deploy/local/up/images"
)

const megabyte = 1 << 20

// imageSizes weighs the content of the images, uncompressed: the largest of the services, and the run image.
func imageSizes(ctx context.Context, options up.Options) (largest, runImage float64, err error) {
	root, err := parts.Root()
	if err != nil {
		return 0, 0, err
	}
	cache, err := parts.DefaultCache()
	if err != nil {
		return 0, 0, err
	}
	sources := images.Sources{Root: root, Cache: cache}
	for _, name := range images.ServiceNames() {
		built, err := sources.Service(ctx, options.Progress, name)
		if err != nil {
			return 0, 0, fmt.Errorf("building the image of %s: %w", name, err)
		}
		size, err := contentSize(built)
		if err != nil {
			return 0, 0, err
		}
		largest = max(largest, size)
	}
	built, err := sources.Run(ctx, options.Progress)
	if err != nil {
		return 0, 0, fmt.Errorf("building the run image: %w", err)
	}
	runImage, err = contentSize(built)
	return largest, runImage, err
}

// contentSize is what the files of an image add up to.
func contentSize(built images.Image) (float64, error) {
	var total int64
	for _, file := range built.Spec.Files {
		if file.Source == "" {
			total += int64(len(file.Bytes))
			continue
		}
		info, err := os.Stat(file.Source)
		if err != nil {
			return 0, fmt.Errorf("weighing image %s: %w", built.Ref(), err)
		}
		total += info.Size()
	}
	return float64(total) / megabyte, nil
}

// fill creates Workspaces that wait for a Rollout that does not exist, so that they cost what a Workspace at rest costs.
func fill(ctx context.Context, c client.Client, count int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}
	if err := c.Create(ctx, namespace); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	project := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "bench"}}
	project.Spec.Orchestration = v1alpha1.OrchestrationRollout
	if err := c.Create(ctx, project); err != nil {
		return fmt.Errorf("creating the Project: %w", err)
	}
	for i := range count {
		ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: fmt.Sprintf("ws-%03d", i)}}
		ws.Spec.ProjectRef.Name = "bench"
		ws.Spec.Source = v1alpha1.WorkspaceSource{RepoURL: demo.RepositoryURL, TargetRevision: "main", Path: "env/dev"}
		ws.Spec.Terraform = v1alpha1.TerraformSpec{Engine: v1alpha1.EngineOpenTofu, Version: demo.OpenTofuVersion}
		if err := c.Create(ctx, ws); err != nil {
			return fmt.Errorf("creating Workspace %d: %w", i, err)
		}
	}
	return nil
}

// idle lets the services come to rest, then counts for a minute what all of them ask of the API server, and reads their memory.
func idle(ctx context.Context, c client.Client) (requestsPerMinute, rssMBMax float64, err error) {
	const rest, window = 45 * time.Second, time.Minute
	fmt.Fprintf(os.Stderr, "letting the services rest for %s, then watching them for %s\n", rest, window)
	if err := pause(ctx, rest); err != nil {
		return 0, 0, err
	}
	all := client.MatchingLabels{"app.kubernetes.io/name": "magos"}
	before, err := total(ctx, c, "rest_client_requests_total", all)
	if err != nil {
		return 0, 0, err
	}
	if err := pause(ctx, window); err != nil {
		return 0, 0, err
	}
	after, err := total(ctx, c, "rest_client_requests_total", all)
	if err != nil {
		return 0, 0, err
	}
	memory, err := total(ctx, c, "process_resident_memory_bytes", all)
	if err != nil {
		return 0, 0, err
	}
	for pod, bytes := range memory {
		fmt.Fprintf(os.Stderr, "%s: %.0f requests, %.1f MB\n", pod, after[pod]-before[pod], bytes/megabyte)
		requestsPerMinute += after[pod] - before[pod]
		rssMBMax = max(rssMBMax, bytes/megabyte)
	}
	return requestsPerMinute, rssMBMax, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// errNoMetric says that a process does not have a metric, such as those of controllers in a replica that does not lead.
var errNoMetric = errors.New("no such metric")

// total sums a metric over its labels, for each pod with the labels that has it. It is an error when none has.
func total(ctx context.Context, c client.Client, metric string, labels client.MatchingLabels) (map[string]float64, error) {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace("magos-system"), labels); err != nil {
		return nil, fmt.Errorf("listing the services' pods: %w", err)
	}
	sums := map[string]float64{}
	for _, pod := range pods.Items {
		sum, err := scrape(ctx, "http://"+pod.Status.PodIP+":8080/metrics", metric)
		if errors.Is(err, errNoMetric) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", pod.Name, err)
		}
		sums[pod.Name] = sum
	}
	if len(sums) == 0 {
		return nil, fmt.Errorf("reading the metrics of %v: %w: %s", labels, errNoMetric, metric)
	}
	return sums, nil
}

func scrape(ctx context.Context, url, metric string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var sum float64
	found := false
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, megabyte)
	for lines.Scan() {
		line := lines.Text()
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if name != metric {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading %q: %w", line, err)
		}
		sum, found = sum+value, true
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !found {
		return 0, errNoMetric
	}
	return sum, nil
}
