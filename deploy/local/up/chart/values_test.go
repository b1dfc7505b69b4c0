package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestWrongValuesAreRefusedByName(t *testing.T) {
	helm := pinnedHelm(t)
	cases := map[string]struct{ values, names string }{
		"a key that does not exist":        {`{replicas: 2}`, "replicas"},
		"a misspelt key of a service":      {`{runner: {runimage: x}}`, "runimage"},
		"no replica":                       {`{rollout: {replicas: 0}}`, "replicas"},
		"replicas as text":                 {`{rollout: {replicas: "2"}}`, "replicas"},
		"a level that is none":             {`{logLevel: loud}`, "logLevel"},
		"a pull policy that is none":       {`{image: {pullPolicy: always}}`, "pullPolicy"},
		"a registry with a scheme":         {`{image: {registry: "https://registry.test"}}`, "registry"},
		"a tag with a space":               {`{image: {tag: "a b"}}`, "tag"},
		"a namespace that cannot be":       {`{namespaces: [Team_A]}`, "namespaces"},
		"a namespace twice":                {`{namespaces: [a, a]}`, "namespaces"},
		"a mirror without a host":          {`{runner: {toolMirror: "mirror"}}`, "toolMirror"},
		"an argument that is none":         {`{runner: {extraArgs: [verbose]}}`, "extraArgs"},
		"a quantity that is none":          {`{runner: {resources: {limits: {memory: lots}}}}`, "memory"},
		"a stamp that is none":             {`{policies: {stampApprover: sometimes}}`, "stampApprover"},
		"a switch as text":                 {`{crds: {install: "yes"}}`, "install"},
		"a webhook port of the service":    {`{refwatcher: {webhook: {secretName: keys, port: 8443}}}`, "port"},
		"a webhook Secret that cannot be":  {`{refwatcher: {webhook: {secretName: "My Keys"}}}`, "secretName"},
		"a misspelt key of webhooks":       {`{refwatcher: {webhook: {secret: keys}}}`, "secret"},
		"a run image that is no reference": {`{runner: {runImage: "My Image"}}`, "runImage"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(c.values), &values); err != nil {
				t.Fatal(err)
			}
			_, err := helm.Template(t.Context(), release(t, values))
			if err == nil || !strings.Contains(err.Error(), "schema") || !strings.Contains(err.Error(), c.names) {
				t.Errorf("%s: want a refusal that names %s, got %v", c.values, c.names, err)
			}
		})
	}
}

// What lies in the release's own namespace are the keys of the services.
func TestTheReleaseDoesNotServeItsOwnNamespace(t *testing.T) {
	_, err := pinnedHelm(t).Template(t.Context(), release(t, map[string]any{"namespaces": []string{"team-a", Namespace}}))
	if err == nil || !strings.Contains(err.Error(), "namespaces names "+Namespace+", the namespace of the release itself") || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("want a refusal that says what to do, got %v", err)
	}
}

func TestProvidersAreLimitedToAMirrorThatIsNamed(t *testing.T) {
	helm := pinnedHelm(t)
	_, err := helm.Template(t.Context(), release(t, map[string]any{"runner": map[string]any{"providerMirrorOnly": true}}))
	if err == nil || !strings.Contains(err.Error(), "runner.providerMirrorOnly needs runner.providerMirror") {
		t.Errorf("want a refusal that says what to do, got %v", err)
	}
	for only, want := range map[bool]bool{true: true, false: false} {
		rendered, err := helm.Template(t.Context(), release(t, map[string]any{"runner": map[string]any{"providerMirror": "/opt/providers", "providerMirrorOnly": only}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(rendered), "--provider-mirror-only"); got != want {
			t.Errorf("with %v the flag is there: %v", only, got)
		}
	}
}

func TestEveryValueIsDocumented(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(Folder(repository), "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	documented := map[string]bool{}
	for i, line := range lines {
		key, isKey := strings.CutSuffix(strings.SplitN(strings.TrimSpace(line), " ", 2)[0], ":")
		if !isKey || strings.HasPrefix(key, "#") || strings.HasPrefix(key, "{") {
			continue
		}
		above := ""
		if i > 0 {
			above = strings.TrimSpace(lines[i-1])
		}
		if strings.HasPrefix(above, "#") {
			documented[key] = true
		}
	}
	// What stands under a comment of its group, or within resources.
	for _, key := range []string{
		"nodeSelector", "replicas", "image", "resources", "extraArgs", "podAnnotations", "runImage", "toolMirror", "providerMirror", "secretName", "port",
		"namespaces", "install", "enabled", "stampApprover", "aggregate", "registry", "tag", "pullPolicy", "pullSecrets", "logLevel",
	} {
		if !documented[key] {
			t.Errorf("%s has no comment in values.yaml", key)
		}
	}
}
