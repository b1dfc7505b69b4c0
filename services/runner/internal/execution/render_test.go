package execution

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"magosproject.io/api/v1alpha1"
	"magosproject.io/services/runner/internal/runspec"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, object any) {
	t.Helper()
	got, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (run with -update if that is meant); got:\n%s", file, got)
	}
}

func TestRenderGolden(t *testing.T) {
	for name, request := range map[string]Request{"plan": planRequest(), "apply": applyRequest()} {
		if violations := Check(request); len(violations) > 0 {
			t.Fatalf("%s: the request is not sound: %v", name, violations)
		}
		digest, err := request.Digest()
		if err != nil {
			t.Fatal(err)
		}
		facts := PlanFacts{}
		if name == "apply" {
			plan := RenderJob(planRequest(), testSettings(), strings.Repeat("d", 64), "config", PlanFacts{})
			facts = PlanFacts{Arch: "arm64", Volume: VariablesVolume(plan), Variables: []string{"region", "password", "zone", "empty"}}
		}
		config, err := RenderConfigMap(request, testSettings(), digest, facts)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+"-job.yaml", RenderJob(request, testSettings(), digest, config.Name, facts))
		golden(t, name+"-configmap.yaml", config)
	}
	tombstone, err := RenderTombstone(planRequest().Key, testSettings(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "tombstone.yaml", tombstone)
	ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "vpc-dev", UID: testUID}}
	golden(t, "volume.yaml", RenderVolume(ws, testSettings()))
	golden(t, "serviceaccount.yaml", RenderServiceAccount("team-a"))
}

func TestVolumeOfADeletedWorkspaceHasNoOwner(t *testing.T) {
	ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "vpc-dev", UID: testUID, DeletionTimestamp: ptrAt(0)}}
	if owners := RenderVolume(ws, testSettings()).OwnerReferences; len(owners) != 0 {
		t.Errorf("owners: %v", owners)
	}
}

// The table of runspec/paths.go, word for word: who may write where keeps the module's code away from what is judged.
func TestMountsAreThoseOfTheContract(t *testing.T) {
	run := runspec.RunDir(testRun)
	want := map[string]map[string]string{
		"keeper": {
			"/workspace-data/tools": "rw", "/workspace-data/plugin-cache": "rw", "/workspace-data/runs": "rw",
			runspec.LocksDir: "rw", runspec.SignalsDir: "rw", runspec.ShownDir: "rw", runspec.InstructionsDir: "ro", runspec.ScratchDir: "rw",
			runspec.RepositoriesDir: "ro", runspec.CredentialsDir: "rw",
		},
		"tool": {
			"/workspace-data/tools": "ro", "/workspace-data/plugin-cache": "ro", run + "/work": "rw",
			runspec.LocksDir: "rw", runspec.SignalsDir: "ro", runspec.VariablesDir: "ro", runspec.InstructionsDir: "ro", runspec.ScratchDir: "rw",
		},
		"show": {
			"/workspace-data/tools": "ro", "/workspace-data/plugin-cache": "ro", run + "/sealed": "ro",
			runspec.LocksDir: "rw", runspec.SignalsDir: "ro", runspec.ShownDir: "rw", runspec.InstructionsDir: "ro", runspec.ScratchDir: "rw",
		},
		"apply": {
			"/workspace-data/tools": "ro", "/workspace-data/plugin-cache": "ro", run + "/work": "rw", run + "/sealed": "ro", run + "/claim": "rw",
			runspec.InstructionsDir: "ro", runspec.ScratchDir: "rw",
		},
	}
	plan := planRequest()
	plan.MountToken = false
	for _, request := range []Request{plan, applyRequest()} {
		pod := RenderJob(request, testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template
		for _, c := range pod.Spec.Containers {
			name := c.Args[0]
			got := map[string]string{}
			for _, m := range c.VolumeMounts {
				got[m.MountPath] = map[bool]string{true: "ro", false: "rw"}[m.ReadOnly]
			}
			for path, mode := range want[name] {
				if got[path] != mode {
					t.Errorf("%s: %s is %q, want %q", name, path, got[path], mode)
				}
			}
			if len(got) != len(want[name]) {
				t.Errorf("%s has the mounts %v, want %v", name, got, want[name])
			}
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("no such containers: %v", want)
	}
}

func TestScratchIsEachContainersOwn(t *testing.T) {
	seen := map[string]string{}
	for _, c := range RenderJob(planRequest(), testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if m.MountPath == runspec.ScratchDir {
				if other, shared := seen[m.Name]; shared {
					t.Errorf("%s and %s share a scratch folder", other, c.Name)
				}
				seen[m.Name] = c.Name
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("scratch folders: %v", seen)
	}
}

// The kubelet would rewrite $(NAME) and $$ in env.value: no value may be there.
func TestNoContainerHasAnEnvironment(t *testing.T) {
	for _, request := range []Request{planRequest(), applyRequest()} {
		for _, c := range RenderJob(request, testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template.Spec.Containers {
			if len(c.Env)+len(c.EnvFrom) > 0 {
				t.Errorf("%s has an environment", c.Name)
			}
		}
	}
}

func TestTokenIsInToolAlone(t *testing.T) {
	for _, c := range RenderJob(planRequest(), testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template.Spec.Containers {
		has := false
		for _, m := range c.VolumeMounts {
			has = has || m.Name == volumeToken
		}
		if has != (c.Name == runspec.ContainerTool) {
			t.Errorf("%s: API token mounted: %v", c.Name, has)
		}
	}
}

func TestPodAnnotationsOverrideDefaultsAndNothingElse(t *testing.T) {
	request := planRequest()
	request.PodAnnotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true", "x": "y"}
	template := RenderJob(request, testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template
	want := map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true", "karpenter.sh/do-not-disrupt": "true", "x": "y"}
	for key, value := range want {
		if template.Annotations[key] != value {
			t.Errorf("annotation %s is %q, want %q", key, template.Annotations[key], value)
		}
	}
	if template.Labels[v1alpha1.LabelRunID] != testRun {
		t.Errorf("labels: %v", template.Labels)
	}
	if defaultPodAnnotations["x"] != "" {
		t.Error("the defaults were changed")
	}
}

// The webhooks of the clouds give the identity of the ServiceAccount to every container that is not named.
func TestTheCloudIdentityIsInToolAloneWhateverTheWorkspaceSays(t *testing.T) {
	const eks, azure = "eks.amazonaws.com/skip-containers", "azure.workload.identity/skip-containers"
	for name, c := range map[string]struct{ ownEKS, ownAzure, wantEKS, wantAzure string }{
		"nothing said":     {"", "", "keeper,show", "keeper;show"},
		"others":           {"none", "none", "keeper,show", "keeper;show"},
		"some":             {"show", "keeper", "keeper,show", "keeper;show"},
		"tool too":         {"sidecar, tool", "tool ;x", "keeper,show,tool", "keeper;show;tool"},
		"what breaks them": {"tool\"", "\";", "keeper,show", "keeper;show"},
	} {
		request := planRequest()
		request.PodAnnotations = map[string]string{eks: c.ownEKS, azure: c.ownAzure}
		got := RenderJob(request, testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template.Annotations
		if got[eks] != c.wantEKS || got[azure] != c.wantAzure {
			t.Errorf("%s: got %q and %q", name, got[eks], got[azure])
		}
	}
	// The pod of an apply has no container but tool.
	apply := RenderJob(applyRequest(), testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template
	if _, found := apply.Annotations[eks]; found || len(apply.Spec.Containers) != 1 {
		t.Errorf("the apply's pod has %v and %d containers", apply.Annotations, len(apply.Spec.Containers))
	}
}

func TestDigestTellsRequestsApart(t *testing.T) {
	base, err := planRequest().Digest()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := planRequest().Digest(); again != base {
		t.Error("equal requests have different digests")
	}
	changes := map[string]func(*Request){
		"revision":   func(r *Request) { r.Revision = strings.Repeat("f", 40) },
		"value":      func(r *Request) { r.Variables[0].Value = &r.ToolVersion },
		"optional":   func(r *Request) { r.Variables[1].Secret.Optional = true },
		"annotation": func(r *Request) { r.PodAnnotations["team"] = "b" },
		"timeout":    func(r *Request) { r.Timeout++ },
		"token":      func(r *Request) { r.MountToken = false },
		"submodules": func(r *Request) { r.RecurseSubmodules = false },
		"kind": func(r *Request) {
			r.Variables[1] = Variable{Name: "password", ConfigMap: &KeyRef{Name: "db", Key: "password"}}
		},
	}
	for name, change := range changes {
		r := planRequest()
		change(&r)
		if digest, _ := r.Digest(); digest == base {
			t.Errorf("another %s has the same digest", name)
		}
	}
}

// Secrets come and go between a request and its repetition, which must find its Job again.
func TestRepositorySecretsAreNoPartOfTheDigest(t *testing.T) {
	some, none := planRequest(), planRequest()
	none.RepositorySecrets = nil
	with, _ := some.Digest()
	if without, _ := none.Digest(); with != without {
		t.Error("another list of repository Secrets is another request")
	}
	spec := RenderJob(none, testSettings(), strings.Repeat("d", 64), "config", PlanFacts{}).Spec.Template.Spec
	if slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volumeRepositories }) {
		t.Error("a pod without repository Secrets mounts them")
	}
}

func TestNamesFitAndAreDistinct(t *testing.T) {
	plan, apply := JobName(testRun, runspec.PhasePlan), JobName(testRun, runspec.PhaseApply)
	if plan == apply || JobName(testRun+"x", runspec.PhasePlan) == plan {
		t.Error("two Jobs share a name")
	}
	names := map[string]bool{}
	for _, data := range []map[string]string{nil, {"a": "b"}, {"a": "c"}, {"ab": ""}, {"a": "b", "c": "d"}, {"a": "b1:c1:d"}} {
		for _, digest := range []string{strings.Repeat("d", 64), strings.Repeat("e", 64)} {
			name := ConfigMapName(testRun, runspec.PhaseApply, digest, data)
			if names[name] || len(name) > 63 || name != ConfigMapName(testRun, runspec.PhaseApply, digest, data) {
				t.Errorf("%s is that of something else, too long, or not the same each time", name)
			}
			names[name] = true
		}
	}
}

func TestVolumeProblem(t *testing.T) {
	claim := func(uid string, deleted bool) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelWorkspaceUID: uid}}}
		if deleted {
			c.DeletionTimestamp = ptrAt(0)
		}
		return c
	}
	for name, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		ok    bool
	}{
		"ours":          {claim(testUID, false), true},
		"another's":     {claim("other", false), false},
		"nobody's":      {&corev1.PersistentVolumeClaim{}, false},
		"being deleted": {claim(testUID, true), false},
	} {
		if problem := VolumeProblem(c.claim, testUID); (problem == "") != c.ok {
			t.Errorf("%s: %q", name, problem)
		}
	}
}

// At apply the values are there to be masked, and for ephemeral variables: a source that is gone must not hold the apply up.
func TestApplyMountsThePlansVariablesToMaskThem(t *testing.T) {
	config, err := RenderConfigMap(planRequest(), testSettings(), strings.Repeat("d", 64), PlanFacts{})
	if err != nil {
		t.Fatal(err)
	}
	plan := RenderJob(planRequest(), testSettings(), strings.Repeat("d", 64), config.Name, PlanFacts{})
	if ConfigMapOf(plan) != config.Name {
		t.Errorf("the plan reads %q, want %q", ConfigMapOf(plan), config.Name)
	}
	names, literals, err := VariablesOf(config)
	if err != nil || len(names) != 4 || len(literals) != 2 {
		t.Fatalf("variables: %v, literals %v, %v", names, literals, err)
	}
	facts := PlanFacts{Variables: names, Literals: literals, Volume: VariablesVolume(plan)}
	for _, source := range facts.Volume.Projected.Sources {
		if (source.Secret != nil && !*source.Secret.Optional) || (source.ConfigMap != nil && !*source.ConfigMap.Optional) {
			t.Errorf("a source is required: %+v", source)
		}
	}
	pod := RenderJob(applyRequest(), testSettings(), strings.Repeat("e", 64), "config", facts).Spec.Template.Spec
	mounted := false
	for _, m := range pod.Containers[0].VolumeMounts {
		mounted = mounted || (m.MountPath == runspec.VariablesDir && m.ReadOnly)
	}
	if !mounted {
		t.Error("they are not mounted")
	}
	if in := Instruct(applyRequest(), testSettings(), facts); len(in.Variables) != 4 || !slices.Equal(in.Literals, literals) {
		t.Errorf("instructions: %v, literals %v", in.Variables, in.Literals)
	}
	if required := VariablesVolume(plan); *plan.Spec.Template.Spec.Volumes[5].Projected.Sources[1].Secret.Optional {
		t.Errorf("the plan's own volume was changed: %v", required)
	}
}
