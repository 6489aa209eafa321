// A search alone, in a notebook.

{
  const problem = pageData("problem");
  const view = new SearchView(() => problem.id.replace(/[^\w.-]+/g, "_"));
  document.getElementById("view").append(view.element);
  view.load(pageData("nodes"), problem);
  if (problem.chosen != null) view.read(problem.chosen);
}
