package chart

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"magosproject.io/api/crds"
	"magosproject.io/deploy/local/cluster/parts"
	"magosproject.io/deploy/local/up/helm"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const repository = "../../../.."

var services = []string{"refwatcher", "rollout", "runner", "workspace"}

// pinnedHelm is the pinned helm, which is built where it is not in the cache.
func pinnedHelm(t *testing.T) helm.Client {
	t.Helper()
	if testing.Short() {
		t.Skip("needs helm, which takes minutes to build once")
	}
	paths, err := parts.Build(t.Context(), t.Output(), parts.Helm)
	if err != nil {
		t.Fatal(err)
	}
	return helm.Client{Binary: paths[parts.Helm]}
}

func release(t *testing.T, values map[string]any) helm.Release {
	t.Helper()
	release, err := Release(repository, values)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

func render(t *testing.T, values map[string]any) []*unstructured.Unstructured {
	t.Helper()
	rendered, err := pinnedHelm(t).Template(t.Context(), release(t, values))
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(rendered), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// of returns the objects of a kind as their type; a field that the type does not have fails the test.
func of[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) []T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, typed)
	}
	return found
}

func TestTheChartPassesHelmsLint(t *testing.T) {
	for _, values := range []map[string]any{nil, {"namespaces": []string{"team-a", "team-b"}}} {
		if err := pinnedHelm(t).Lint(t.Context(), release(t, values)); err != nil {
			t.Error(err)
		}
	}
}

func TestTheChartHasTheCRDsOfTheAPIAndKeepsThem(t *testing.T) {
	var names []string
	for _, object := range render(t, nil) {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		names = append(names, object.GetName())
		if policy := object.GetAnnotations()["helm.sh/resource-policy"]; policy != "keep" {
			t.Errorf("%s has the resource policy %q: helm uninstall would delete every object of the kind", object.GetName(), policy)
		}
	}
	if want := 4; len(names) != want {
		t.Errorf("the chart renders the CRDs %v, want %d", names, want)
	}
	entries, err := crds.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		source, err := crds.Files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		copied, err := os.ReadFile(filepath.Join(Folder(repository), "files", "crds", entry.Name()))
		if err != nil || !bytes.Equal(source, copied) {
			t.Errorf("the chart's copy of %s is stale (%v): run `make generate`", entry.Name(), err)
		}
	}
	for _, object := range render(t, map[string]any{"crds": map[string]any{"install": false}}) {
		if object.GetKind() == "CustomResourceDefinition" {
			t.Errorf("crds.install is false, and %s is rendered", object.GetName())
		}
	}
}

func TestEveryServiceRunsTwiceAndUnprivileged(t *testing.T) {
	objects := render(t, map[string]any{"image": map[string]any{"registry": "registry.test/team/", "tag": "v9"}})
	deployments := of[appsv1.Deployment](t, objects, "Deployment")
	if len(deployments) != len(services) {
		t.Fatalf("%d Deployments, want %d", len(deployments), len(services))
	}
	for _, deployment := range deployments {
		t.Run(deployment.Name, func(t *testing.T) {
			pod := deployment.Spec.Template.Spec
			container := pod.Containers[0]
			facts := map[string]bool{
				"two replicas":               *deployment.Spec.Replicas == 2,
				"an account of its own":      pod.ServiceAccountName == deployment.Name,
				"one container":              len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
				"not root":                   *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser != 0,
				"seccomp":                    pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
				"no escalation":              !*container.SecurityContext.AllowPrivilegeEscalation,
				"a read-only root":           *container.SecurityContext.ReadOnlyRootFilesystem,
				"no capabilities":            slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
				"nothing of the host":        !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
				"requests":                   !container.Resources.Requests.Cpu().IsZero() && !container.Resources.Requests.Memory().IsZero(),
				"a limit of its memory":      !container.Resources.Limits.Memory().IsZero(),
				"liveness over HTTP":         container.LivenessProbe.HTTPGet.Path == "/healthz",
				"readiness over HTTP":        container.ReadinessProbe.HTTPGet.Path == "/readyz",
				"time to start":              container.StartupProbe != nil,
				"no service links":           !*pod.EnableServiceLinks,
				"an update without a gap":    deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() == 0,
				"the image of the registry":  container.Image == "registry.test/team/"+deployment.Name+":v9",
				"replicas spread, if it can": len(pod.TopologySpreadConstraints) > 0 && pod.TopologySpreadConstraints[0].WhenUnsatisfiable == corev1.ScheduleAnyway,
			}
			for fact, holds := range facts {
				if !holds {
					t.Errorf("want %s", fact)
				}
			}
		})
	}
	if budgets := of[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget"); len(budgets) != len(services) {
		t.Errorf("%d PodDisruptionBudgets, want %d", len(budgets), len(services))
	}
	single := render(t, map[string]any{"runner": map[string]any{"replicas": 1}})
	if budgets := of[policyv1.PodDisruptionBudget](t, single, "PodDisruptionBudget"); len(budgets) != len(services)-1 {
		t.Error("a service with one replica must have no PodDisruptionBudget: its node could never be drained")
	}
}

func TestPeersAreCalledWithTokensOfTheirOwnAudience(t *testing.T) {
	want := map[string][]string{
		"magos-refwatcher": {"magos-refwatcher"},
		"magos-rollout":    {"magos-refwatcher"},
		"magos-runner":     nil,
		"magos-workspace":  {"magos-runner", "magos-refwatcher"},
	}
	for _, deployment := range of[appsv1.Deployment](t, render(t, nil), "Deployment") {
		var audiences []string
		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			for _, source := range volume.Projected.Sources {
				audiences = append(audiences, source.ServiceAccountToken.Audience)
				if file := strings.TrimPrefix(source.ServiceAccountToken.Audience, "magos-"); source.ServiceAccountToken.Path != file {
					t.Errorf("%s: the token for %s lies in %s", deployment.Name, file, source.ServiceAccountToken.Path)
				}
			}
		}
		if !slices.Equal(audiences, want[deployment.Name]) {
			t.Errorf("%s has tokens for %v, want %v", deployment.Name, audiences, want[deployment.Name])
		}
	}
}

// rights lists what the rules allow, one line each, in a fixed order.
func rights(title string, rules []rbacv1.PolicyRule) string {
	var lines []string
	for _, rule := range rules {
		names := ""
		if len(rule.ResourceNames) > 0 {
			names = " named " + strings.Join(rule.ResourceNames, ", ")
		}
		lines = append(lines, fmt.Sprintf("  %s of %q%s: %s\n", strings.Join(rule.Resources, ", "), strings.Join(rule.APIGroups, ", "),
			names, strings.Join(rule.Verbs, ", ")))
	}
	return title + "\n" + strings.Join(lines, "")
}

// rightsOf lists what every role may do.
func rightsOf(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	var all []string
	for _, role := range of[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		all = append(all, rights("ClusterRole "+role.Name, role.Rules))
	}
	for _, role := range of[rbacv1.Role](t, objects, "Role") {
		all = append(all, rights("Role "+role.Namespace+"/"+role.Name, role.Rules))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestWhatEveryRoleMayDoIsReviewed(t *testing.T) {
	got := rightsOf(t, render(t, nil))
	if strings.Contains(got, "*") {
		t.Error("a role has a wildcard")
	}
	golden := filepath.Join("testdata", "rights.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the rights are not those of %s: review them, then run this test with -update\n%s", golden, got)
	}
}

// TestTheRolesAreThoseThatTheServicesAskFor compares with services/<service>/rbac.yaml, which the tests of the services run under.
func TestTheRolesAreThoseThatTheServicesAskFor(t *testing.T) {
	roles := map[string][]rbacv1.PolicyRule{}
	for _, role := range of[rbacv1.ClusterRole](t, render(t, nil), "ClusterRole") {
		roles[role.Name] = role.Rules
	}
	for _, service := range services {
		content, err := os.ReadFile(filepath.Join(repository, "services", service, "rbac.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		// The first document has the rules of each namespace; some files have further ones.
		var asked struct{ Rules []rbacv1.PolicyRule }
		if err := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096).Decode(&asked); err != nil {
			t.Fatalf("reading the rights of %s: %v", service, err)
		}
		want, got := grants(asked.Rules), grants(roles["magos-"+service])
		if !slices.Equal(want, got) {
			t.Errorf("%s asks for\n  %s\nand gets\n  %s", service, strings.Join(want, "\n  "), strings.Join(got, "\n  "))
		}
	}
}

// grants lists every single right of the rules, sorted.
func grants(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, fmt.Sprintf("%s %s.%s %v", verb, resource, group, rule.ResourceNames))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestApproversAreStampedWhereTheClusterCan: without a cluster to ask nothing is known to be served.
func TestApproversAreStampedWhereTheClusterCan(t *testing.T) {
	for when, want := range map[string]int{"IfServed": 0, "Always": 2, "Never": 0} {
		objects := render(t, map[string]any{"policies": map[string]any{"stampApprover": when}})
		for _, kind := range []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"} {
			count := 0
			for _, object := range objects {
				if object.GetKind() == kind {
					count++
				}
			}
			if count != want {
				t.Errorf("stampApprover %s: %d of kind %s, want %d", when, count, kind, want)
			}
		}
	}
	// This is what Helm learns from a cluster that serves them.
	template := exec.CommandContext(t.Context(), pinnedHelm(t).Binary, "template", Name, Folder(repository), "--namespace", Namespace,
		"--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")
	if output, err := template.Output(); err != nil || strings.Count(string(output), "kind: MutatingAdmissionPolicy\n") != 2 {
		t.Errorf("a cluster that serves the policies gets none, or there is an error: %v", err)
	}
	for _, object := range render(t, map[string]any{"policies": map[string]any{"stampApprover": "Always", "enabled": false}}) {
		if strings.Contains(object.GetKind(), "AdmissionPolicy") {
			t.Errorf("policies.enabled is false, and %s %s is rendered", object.GetKind(), object.GetName())
		}
	}
}

func TestNamedNamespacesGetTheRightsAndNoOther(t *testing.T) {
	objects := render(t, map[string]any{"namespaces": []string{"team-a", "team-b"}, "policies": map[string]any{"stampApprover": "Always"}})
	for _, binding := range of[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
		if !strings.HasSuffix(binding.RoleRef.Name, "-cluster") {
			t.Errorf("%s reaches every namespace", binding.Name)
		}
	}
	bound := map[string]int{}
	for _, binding := range of[rbacv1.RoleBinding](t, objects, "RoleBinding") {
		bound[binding.Namespace]++
	}
	for _, namespace := range []string{"team-a", "team-b", Namespace} {
		if bound[namespace] != len(services) {
			t.Errorf("%d services have rights in %s, want %d", bound[namespace], namespace, len(services))
		}
	}
	for _, deployment := range of[appsv1.Deployment](t, objects, "Deployment") {
		if !slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, "--namespaces=team-a,team-b") {
			t.Errorf("%s is not told its namespaces", deployment.Name)
		}
	}
	policies := 0
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "AdmissionPolicyBinding") {
			continue
		}
		policies++
		expressions, _, _ := unstructured.NestedSlice(object.Object, "spec", "matchResources", "namespaceSelector", "matchExpressions")
		if got := fmt.Sprint(expressions); got != "[map[key:kubernetes.io/metadata.name operator:In values:[team-a team-b]]]" {
			t.Errorf("%s is bound to %s", object.GetName(), got)
		}
		if !strings.HasPrefix(object.GetName(), Name+"-") {
			t.Errorf("%s does not carry the release's name", object.GetName())
		}
	}
	if policies == 0 {
		t.Error("no policy is bound")
	}
}
