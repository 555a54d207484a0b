// Package kubernetes holds examples/gitops/kubernetes, and the container image of `make image`,
// against what they are for: the manifests are read strictly, and servers are run from the image
// with the arguments, files and rights that the manifests give them. It is a module of its own,
// so that the types of Kubernetes are no dependencies of salectl.
package kubernetes

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const folder = "../../examples/gitops/kubernetes"

// manifests are what kustomize makes of the folder.
type manifests struct {
	server   *appsv1.StatefulSet
	apply    *batchv1.Job
	drift    *batchv1.CronJob
	manual   map[string]*batchv1.Job // of the folder jobs
	exports  *corev1.PersistentVolumeClaim
	budget   *policyv1.PodDisruptionBudget
	network  *networkingv1.NetworkPolicy
	services map[string]*corev1.Service
	configs  map[string]*corev1.ConfigMap
}

// build reads the folder, and its folder jobs, as kubectl, Argo CD and Flux do. A field that
// Kubernetes does not know is an error, and so is a kind that this test does not know.
func build(t *testing.T) *manifests {
	t.Helper()
	m := &manifests{manual: make(map[string]*batchv1.Job), services: make(map[string]*corev1.Service), configs: make(map[string]*corev1.ConfigMap)}
	m.read(t, folder)
	m.read(t, folder+"/jobs")
	return m
}

func (m *manifests) read(t *testing.T, from string) {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), from)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var into any
		switch gvk := r.GetGvk().String(); gvk {
		case "StatefulSet.v1.apps":
			m.server = new(appsv1.StatefulSet)
			into = m.server
		case "Job.v1.batch":
			job := new(batchv1.Job)
			if into = job; from == folder {
				if m.apply = job; r.GetName() != "salectl-apply" {
					t.Errorf("a sync creates Job %s", r.GetName())
				}
			} else {
				m.manual[strings.TrimPrefix(r.GetName(), "salectl-")] = job
			}
		case "PersistentVolumeClaim.v1.[noGrp]":
			m.exports = new(corev1.PersistentVolumeClaim)
			into = m.exports
		case "CronJob.v1.batch":
			m.drift = new(batchv1.CronJob)
			into = m.drift
		case "PodDisruptionBudget.v1.policy":
			m.budget = new(policyv1.PodDisruptionBudget)
			into = m.budget
		case "NetworkPolicy.v1.networking.k8s.io":
			m.network = new(networkingv1.NetworkPolicy)
			into = m.network
		case "Service.v1.[noGrp]":
			m.services[r.GetName()] = new(corev1.Service)
			into = m.services[r.GetName()]
		case "ConfigMap.v1.[noGrp]":
			m.configs[r.GetName()] = new(corev1.ConfigMap)
			into = m.configs[r.GetName()]
		default:
			t.Fatalf("%s %s: no such kind is known here", gvk, r.GetName())
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Errorf("%s %s: %v", r.GetKind(), r.GetName(), err)
		}
		if r.GetNamespace() != "shop" {
			t.Errorf("%s %s is in namespace %q", r.GetKind(), r.GetName(), r.GetNamespace())
		}
	}
}

// Manifests refer to each other by labels and names, and nobody says so where one is wrong.
func TestManifests(t *testing.T) {
	m := build(t)
	labels := m.server.Spec.Template.Labels
	selects := func(what string, selector map[string]string) {
		for name, value := range selector {
			if labels[name] != value {
				t.Errorf("%s selects %s=%s, and the servers' Pods have %q", what, name, value, labels[name])
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects every Pod", what)
		}
	}
	selects("the StatefulSet", m.server.Spec.Selector.MatchLabels)
	selects("the PodDisruptionBudget", m.budget.Spec.Selector.MatchLabels)
	selects("the NetworkPolicy", m.network.Spec.PodSelector.MatchLabels)
	server := m.server.Spec.Template.Spec
	// One node, or one zone, with all servers satisfies a constraint without minDomains.
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		i := slices.IndexFunc(server.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool { return c.TopologyKey == key })
		if i < 0 {
			t.Errorf("no spread over %s", key)
			continue
		}
		c := server.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule || c.MaxSkew != 1 || c.MinDomains == nil || *c.MinDomains != 2 {
			t.Errorf("the spread over %s is not required: %+v", key, c)
		}
		selects("the spread over "+key, c.LabelSelector.MatchLabels)
	}
	selects("the NetworkPolicy's first rule", m.network.Spec.Ingress[0].From[0].PodSelector.MatchLabels)
	ports := make(map[string]int32)
	for _, p := range server.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, service := range m.services {
		selects("Service "+name, service.Spec.Selector)
		for _, p := range service.Spec.Ports {
			if p.TargetPort.StrVal != "claims" || ports["claims"] != p.Port {
				t.Errorf("Service %s leads to port %v; only claims may be reached by a Service", name, p.TargetPort)
			}
		}
	}
	headless := m.services[m.server.Spec.ServiceName]
	if headless == nil || headless.Spec.ClusterIP != corev1.ClusterIPNone || !headless.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service of the StatefulSet, which gives the Pods their names, is %+v", headless)
	}
	if *m.server.Spec.Replicas < 2 {
		t.Errorf("%d servers", *m.server.Spec.Replicas)
	}
	if before := server.Containers[0].Lifecycle.PreStop.Sleep.Seconds; *server.TerminationGracePeriodSeconds < before+longestDrain {
		t.Errorf("a server is killed after %d s, of which preStop takes %d, and a drain takes up to %d", *server.TerminationGracePeriodSeconds, before, longestDrain)
	}
	ready := server.Containers[0].ReadinessProbe
	if patience := time.Duration(ready.PeriodSeconds*(ready.FailureThreshold-1)) * time.Second; patience <= longestTakeover {
		t.Errorf("servers that are not ready for %v get nothing, so that one death, which takes up to %v to be made good, takes all out of the Services", patience, longestTakeover)
	}

	specs := map[string]corev1.PodSpec{"serve": server, "apply": m.apply.Spec.Template.Spec, "plan": m.drift.Spec.JobTemplate.Spec.Template.Spec}
	failures := map[string]*batchv1.PodFailurePolicy{"apply": m.apply.Spec.PodFailurePolicy, "plan": m.drift.Spec.JobTemplate.Spec.PodFailurePolicy}
	for name, job := range m.manual {
		specs[name], failures[name] = job.Spec.Template.Spec, job.Spec.PodFailurePolicy
		if job.Spec.Suspend == nil || !*job.Spec.Suspend {
			t.Errorf("Job %s runs as soon as it is created", name)
		}
		if len(job.Annotations) > 0 {
			t.Errorf("Job %s has annotations of a hook: %v", name, job.Annotations)
		}
		args := job.Spec.Template.Spec.Containers[0].Args
		if sale := "--sale=movie-tickets"; args[0] != name || !slices.Contains(args, sale) {
			t.Errorf("Job %s runs %q; want %s of one sale, %s", name, args, name, sale)
		}
	}
	if len(m.manual) != 2 || specs["export"].Containers == nil || specs["destroy"].Containers == nil {
		t.Errorf("the folder jobs has %v; want export and destroy", slices.Sorted(maps.Keys(m.manual)))
	}
	image := server.Containers[0].Image
	if !regexp.MustCompile(`^registry\.example\.com/salectl@sha256:[0-9a-f]{64}$`).MatchString(image) {
		t.Errorf("the image %s has no digest", image)
	}
	writers := []string{"serve", "apply", "destroy"}
	for name, spec := range specs {
		if len(spec.Containers) != 1 || len(spec.InitContainers) > 0 {
			t.Fatalf("%s has other containers than one", name)
		}
		c := spec.Containers[0]
		if c.Name != name || c.Image != image {
			t.Errorf("container %s has the name %s and the image %s; the servers have %s", name, c.Name, c.Image, image)
		}
		if of := spec.SecurityContext; of == nil || of.RunAsNonRoot == nil || !*of.RunAsNonRoot || of.RunAsUser == nil || of.RunAsGroup == nil ||
			of.SeccompProfile == nil || of.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the Pod of %s has too many rights: %+v", name, of)
		}
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil ||
			*s.AllowPrivilegeEscalation || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("the container of %s has too many rights: %+v", name, s)
		}
		if token := spec.AutomountServiceAccountToken; token == nil || *token {
			t.Errorf("%s has a token of Kubernetes", name)
		}
		mounted := make(map[string]string)
		for _, v := range c.VolumeMounts {
			mounted[v.Name] = v.MountPath
			if !v.ReadOnly && v.Name != "exports" {
				t.Errorf("%s can write to %s", name, v.Name)
			}
		}
		for _, v := range spec.Volumes {
			switch {
			case v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o400):
				t.Errorf("%s: Secret %s has another mode than 0400: %v", name, v.Name, v.Secret.DefaultMode)
			case v.Secret != nil && (spec.SecurityContext.FSGroup == nil || *spec.SecurityContext.FSGroup != *spec.SecurityContext.RunAsGroup):
				t.Errorf("%s cannot read Secret %s, which belongs to root: it has no fsGroup of its own", name, v.Name)
			case v.ConfigMap != nil && m.configs[v.ConfigMap.Name] == nil:
				t.Errorf("%s: there is no ConfigMap %s", name, v.ConfigMap.Name)
			case v.PersistentVolumeClaim != nil && (v.PersistentVolumeClaim.ClaimName != m.exports.Name || mounted[v.Name] != c.WorkingDir):
				t.Errorf("%s exports to %s, and its volume is %s", name, c.WorkingDir, v.PersistentVolumeClaim.ClaimName)
			}
		}
		// All commands read the same files and variables of the sale.
		if mounted["sales"] != "/etc/salectl/sales" || mounted["private"] != "/etc/salectl/private" {
			t.Errorf("%s reads the sale from %q", name, mounted)
		}
		if len(c.EnvFrom) != 1 || c.EnvFrom[0].SecretRef == nil || c.EnvFrom[0].SecretRef.Name != "salectl-env" {
			t.Errorf("%s does not read the variables of the sale: %+v", name, c.EnvFrom)
		}
		redis := "salectl-redis-read"
		if slices.Contains(writers, name) {
			redis = "salectl-redis"
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name != redis {
				t.Errorf("%s has %s of Secret %s; want %s", name, e.Name, e.ValueFrom.SecretKeyRef.Name, redis)
			}
		}
		// What the sale file takes from the environment is there.
		for _, of := range regexp.MustCompile(`[a-z]Env: (\S+)`).FindAllStringSubmatch(m.configs["sales"].Data["sale.yaml"], -1) {
			if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == of[1] }) {
				t.Errorf("%s: the sale file reads %s, which is not in the environment", name, of[1])
			}
		}
	}
	for name, policy := range failures {
		if on := policy.Rules[0].OnExitCodes; *on.ContainerName != name {
			t.Errorf("the rule of %s is for a container %s", name, *on.ContainerName)
		}
	}
	if !maps.Equal(m.configs["sales"].Data, m.configs["sales-to-apply"].Data) {
		t.Error("what is applied is not what is served")
	}
	if text, err := os.ReadFile(folder + "/sale.yaml"); err != nil || m.configs["sales"].Data["sale.yaml"] != string(text) {
		t.Errorf("the ConfigMap does not have the file: %v", err)
	}
	// It can be a hook only if what it needs is a hook before it.
	for _, a := range []map[string]string{m.apply.Annotations, m.configs["sales-to-apply"].Annotations} {
		if a["argocd.argoproj.io/hook"] != "PreSync" {
			t.Errorf("not before the sync: %v", a)
		}
	}
	if !strings.HasPrefix(m.configs["sales-to-apply"].Annotations["argocd.argoproj.io/sync-wave"], "-") {
		t.Error("the file to apply is not there before the Job")
	}
}

// Each file is part of a kustomization, which gives it the namespace and the image by digest, or
// is one of the files that hold no Pod.
func TestEveryManifestIsBuilt(t *testing.T) {
	alone := []string{"certificates.yaml", "monitoring.yaml", "scrape.yaml", "sale.yaml"}
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".yaml" || entry.Name() == "kustomization.yaml" || slices.Contains(alone, name) {
			return err
		}
		text, err := fs.ReadFile(files, path.Join(path.Dir(name), "kustomization.yaml"))
		if err != nil {
			return err
		}
		var built struct{ Resources []string }
		if err := yaml.Unmarshal(text, &built); err != nil {
			return err
		}
		if !slices.Contains(built.Resources, entry.Name()) {
			t.Errorf("no kustomization has %s", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// certificate is what a Certificate of cert-manager declares.
type certificate struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	Spec             struct {
		SecretName string
		IssuerRef  struct{ Name, Kind string }
		Usages     []string
		DNSNames   []string `json:"dnsNames"`
		CommonName string
	}
}

// certificates returns the Certificates of the folder, by the name of their Secret.
func certificates(t *testing.T) map[string]certificate {
	t.Helper()
	text, err := os.ReadFile(folder + "/certificates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]certificate)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var c certificate
		if err := yaml.UnmarshalStrict(document, &c); err != nil {
			t.Fatal(err)
		}
		if c.APIVersion != "cert-manager.io/v1" || c.Kind != "Certificate" || c.Metadata.Namespace != "shop" {
			t.Errorf("%+v", c)
		}
		all[c.Spec.SecretName] = c
	}
	return all
}

// endpoint is how a PodMonitor reads the metrics of a Pod.
type endpoint struct {
	Port, Scheme, Path, Interval string
	Relabelings                  []struct {
		SourceLabels []string
		TargetLabel  string
	}
	TLSConfig struct {
		ServerName string
		CA, Cert   struct{ Secret corev1.SecretKeySelector }
		KeySecret  corev1.SecretKeySelector
	} `json:"tlsConfig"`
}

// monitor returns the labels of the Pods that the PodMonitor selects, and how it reads them.
func monitor(t *testing.T) (map[string]string, endpoint) {
	t.Helper()
	text, err := os.ReadFile(folder + "/monitoring.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		APIVersion, Kind string
		Metadata         struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Spec struct {
			Selector            struct{ MatchLabels map[string]string }
			JobLabel            string
			PodMetricsEndpoints []endpoint
		}
	}
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.Kind != "PodMonitor" || m.Metadata.Namespace != "shop" || len(m.Spec.PodMetricsEndpoints) != 1 {
		t.Fatalf("%+v", m)
	}
	// The alerts are those of the job salectl.
	if job := m.Spec.Selector.MatchLabels[m.Spec.JobLabel]; job != "salectl" {
		t.Errorf("Prometheus has the servers as job %q", job)
	}
	return m.Spec.Selector.MatchLabels, m.Spec.PodMetricsEndpoints[0]
}

// Prometheus reaches the admin address of each server, and has the certificate that it demands.
func TestMonitoring(t *testing.T) {
	m, issued := build(t), certificates(t)
	selected, of := monitor(t)
	for name, value := range selected {
		if m.server.Spec.Template.Labels[name] != value {
			t.Errorf("the PodMonitor selects %s=%s, which the servers' Pods have not", name, value)
		}
	}
	if of.Port != "admin" || of.Scheme != "https" || of.Path != "/metrics" {
		t.Errorf("Prometheus reads %s of port %s by %s", of.Path, of.Port, of.Scheme)
	}
	client := issued["salectl-monitoring"]
	for key, secret := range map[string]corev1.SecretKeySelector{"ca.crt": of.TLSConfig.CA.Secret, "tls.crt": of.TLSConfig.Cert.Secret, "tls.key": of.TLSConfig.KeySecret} {
		if secret.Key != key || secret.Name != client.Spec.SecretName {
			t.Errorf("Prometheus has %s of Secret %q; want %s of %q", secret.Key, secret.Name, key, client.Spec.SecretName)
		}
	}
	servers := issued["salectl-tls"]
	if !slices.Contains(servers.Spec.DNSNames, of.TLSConfig.ServerName) {
		t.Errorf("Prometheus expects the name %s; the servers' certificate has %q", of.TLSConfig.ServerName, servers.Spec.DNSNames)
	}
	for _, c := range issued {
		if !slices.Contains(c.Spec.Usages, "client auth") || slices.Contains(c.Spec.Usages, "server auth") != (c.Metadata.Name == "salectl") || c.Spec.IssuerRef != servers.Spec.IssuerRef {
			t.Errorf("%+v", c)
		}
	}

	text, err := os.ReadFile(folder + "/scrape.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		ScrapeConfigs []struct {
			JobName        string                                `json:"job_name"`
			DNSSDConfigs   []struct{ Names []string }            `json:"dns_sd_configs"`
			RelabelConfigs []struct{ Regex, Replacement string } `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	scrape := config.ScrapeConfigs[0]
	if name := "_claims._tcp." + m.server.Spec.ServiceName + ".shop.svc"; scrape.JobName != "salectl" || scrape.DNSSDConfigs[0].Names[0] != name {
		t.Errorf("Prometheus discovers %q as job %s; the servers have the name %s", scrape.DNSSDConfigs[0].Names, scrape.JobName, name)
	}
	// Prometheus anchors the expression.
	relabel := regexp.MustCompile("^(?:" + scrape.RelabelConfigs[0].Regex + ")$")
	if target := relabel.ReplaceAllString("salectl-1.salectl.shop.svc.cluster.local:8443", scrape.RelabelConfigs[0].Replacement); target != "salectl-1.salectl.shop.svc:9443" {
		t.Errorf("Prometheus reads %s", target)
	}

	// The NetworkPolicy admits the namespace of Prometheus to the admin address, and nobody else.
	for _, rule := range m.network.Spec.Ingress {
		if rule.Ports[0].Port.StrVal != of.Port {
			continue
		}
		if len(rule.From) != 1 || rule.From[0].NamespaceSelector == nil || rule.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "monitoring" {
			t.Errorf("the NetworkPolicy admits %+v to the admin address", rule.From)
		}
		return
	}
	t.Error("the NetworkPolicy admits nobody to the admin address")
}

// longestDrain is how many seconds a server takes at most between SIGTERM and its end: to give
// its shards away, for requests, for what the shards have accepted, and at the admin address.
const longestDrain = 20 + 10 + 5 + 10

// longestTakeover is for how long nobody may own the shards of a server that has died, at the
// default of lock.ttl. No server is ready then.
const longestTakeover = 3*time.Second + time.Second
