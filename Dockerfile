# Two stages: compile with everything, run with the production dependencies only.
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
RUN npm ci
COPY bin bin
COPY protocol protocol
COPY storage storage
COPY src src
RUN npx tsc -p tsconfig.json && npm prune --omit=dev

FROM node:24-bookworm-slim
# glibc gives large buffers back to the kernel at once by default; each reuse then costs page faults.
ENV NODE_ENV=production \
    MALLOC_MMAP_THRESHOLD_=33554432 \
    MALLOC_TRIM_THRESHOLD_=268435456
WORKDIR /opt/causeway
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY --from=build /build/bin bin
RUN mkdir -p /var/lib/causeway && chown node:node /var/lib/causeway
USER node
VOLUME /var/lib/causeway
# Bootstrap, one port per destination broker and the link node, admin (bound to 127.0.0.1 by default).
EXPOSE 9092 9093-9192 8082
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8082/health/live').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/opt/causeway/bin/causeway.js"]
CMD ["serve", "--config", "/etc/causeway/causeway.yaml"]
