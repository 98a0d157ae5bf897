// The description of the API, shown by Swagger UI, whose own page would load scripts from elsewhere.
fetch("openapi.json").then((response) => response.json()).then((spec) => {
  // The installed Swagger UI knows 3.0 by name; what it shows of 3.1 is the same.
  window.SwaggerUIBundle({
    dom_id: "#docs", spec: { ...spec, openapi: "3.0.3" }, deepLinking: true, validatorUrl: null,
    presets: [window.SwaggerUIBundle.presets.apis], layout: "BaseLayout", defaultModelsExpandDepth: 0,
  });
});
