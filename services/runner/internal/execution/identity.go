package execution

import (
	"slices"
	"strings"

	"magosproject.io/services/runner/internal/runspec"
)

// identityWebhooks are the annotations that tell the clouds' webhooks which containers of a pod get no identity, each
// with what separates the names in it. Without them the webhooks give the identity to every container.
var identityWebhooks = map[string]string{
	"eks.amazonaws.com/skip-containers":       ",",
	"azure.workload.identity/skip-containers": ";",
}

// withoutIdentity returns the annotations that keep the cloud identity in tool alone, where the plan's pod has others.
// They win over the Workspace's own, of which only the wish to leave out tool too is kept.
func withoutIdentity(own map[string]string) map[string]string {
	annotations := make(map[string]string, len(identityWebhooks))
	for key, separator := range identityWebhooks {
		names := []string{runspec.ContainerKeeper, runspec.ContainerShow}
		isTool := func(name string) bool { return strings.TrimSpace(name) == runspec.ContainerTool }
		if slices.ContainsFunc(strings.Split(own[key], separator), isTool) {
			names = append(names, runspec.ContainerTool)
		}
		annotations[key] = strings.Join(names, separator)
	}
	return annotations
}
